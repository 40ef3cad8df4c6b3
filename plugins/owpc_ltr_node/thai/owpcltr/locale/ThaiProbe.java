package owpcltr.locale;

import java.text.BreakIterator;
import java.util.Locale;

/** Prints whether this runtime can break Thai text, by the question that Lucene asks of it. */
public final class ThaiProbe {

  private ThaiProbe() {}

  public static void main(String[] arguments) {
    BreakIterator words = BreakIterator.getWordInstance(Locale.forLanguageTag("th"));
    words.setText("ภาษาไทย");
    System.out.println(words.isBoundary(4));
  }
}
