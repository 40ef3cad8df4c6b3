import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.elasticsearch.common.bytes.BytesReference;
import org.elasticsearch.common.logging.LogConfigurator;
import org.elasticsearch.common.settings.Settings;
import org.elasticsearch.common.xcontent.XContentHelper;
import org.elasticsearch.search.SearchModule;
import org.elasticsearch.xcontent.NamedXContentRegistry;
import org.elasticsearch.xcontent.XContentBuilder;
import org.elasticsearch.xcontent.XContentFactory;
import org.elasticsearch.xcontent.XContentParser;
import org.elasticsearch.xcontent.XContentParserConfiguration;
import org.elasticsearch.xcontent.XContentType;
import org.elasticsearch.xpack.core.ml.action.PutTrainedModelAction;
import org.elasticsearch.xpack.core.ml.inference.MlInferenceNamedXContentProvider;
import org.elasticsearch.xpack.core.ml.inference.trainedmodel.inference.InferenceDefinition;
import org.elasticsearch.xpack.core.ml.ltr.MlLTRNamedXContentProvider;

/** What Elasticsearch's own classes say of a trained model: whether they take it, and its scores.
 *
 * Each line in is {"id", "body", "rows"}: a model's id, the body of PUT _ml/trained_models, and
 * documents as {feature: value}. Each line out is {"scores"}, or {"error"} in Elasticsearch's words.
 */
public class TrainedModelTrial {
    private static XContentParserConfiguration known;

    public static void main(String[] args) throws Exception {
        LogConfigurator.configureESLogging();
        List<NamedXContentRegistry.Entry> entries = new ArrayList<>();
        entries.addAll(new SearchModule(Settings.EMPTY, List.of()).getNamedXContents());
        entries.addAll(new MlInferenceNamedXContentProvider().getNamedXContentParsers());
        entries.addAll(new MlLTRNamedXContentProvider().getNamedXContentParsers());
        known = XContentParserConfiguration.EMPTY.withRegistry(new NamedXContentRegistry(entries));
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Map<String, Object> asked = XContentHelper.convertToMap(XContentType.JSON.xContent(), line, true);
            XContentBuilder answer = XContentFactory.jsonBuilder().startObject();
            try {
                answer.field("scores", scores(asked));
            } catch (Exception refused) {
                answer.field("error", words(refused));
            }
            System.out.println(BytesReference.bytes(answer.endObject()).utf8ToString());
        }
    }

    @SuppressWarnings("unchecked")
    private static List<Double> scores(Map<String, Object> asked) throws Exception {
        Map<String, Object> body = (Map<String, Object>) asked.get("body");
        PutTrainedModelAction.Request put;
        try (XContentParser parser = parser(body)) {
            put = PutTrainedModelAction.Request.parseRequest((String) asked.get("id"), false, false, parser);
        }
        var fault = put.validate();
        if (fault != null) {
            throw fault;
        }
        put.getTrainedModelConfig().ensureParsedDefinition(new NamedXContentRegistry(
            new MlInferenceNamedXContentProvider().getNamedXContentParsers()));
        put.getTrainedModelConfig().getModelDefinition().getTrainedModel().validate();
        List<Double> scores = new ArrayList<>();
        try (XContentParser parser = parser((Map<String, Object>) body.get("definition"))) {
            InferenceDefinition definition = InferenceDefinition.fromXContent(parser);
            for (Object row : (List<Object>) asked.get("rows")) {
                var result = definition.infer((Map<String, Object>) row, put.getTrainedModelConfig().getInferenceConfig());
                scores.add(((Number) result.predictedValue()).doubleValue());
            }
        }
        return scores;
    }

    private static XContentParser parser(Map<String, Object> content) throws Exception {
        String text = BytesReference.bytes(XContentFactory.jsonBuilder().map(content)).utf8ToString();
        return XContentType.JSON.xContent().createParser(known, text);
    }

    private static String words(Throwable refused) {
        StringBuilder words = new StringBuilder();
        for (Throwable each = refused; each != null; each = each.getCause()) {
            words.append(each.getMessage()).append(" ");
        }
        return words.toString().strip();
    }
}
