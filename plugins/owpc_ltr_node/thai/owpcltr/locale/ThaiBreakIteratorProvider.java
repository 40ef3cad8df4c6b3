package owpcltr.locale;

import java.text.BreakIterator;
import java.text.CharacterIterator;
import java.text.spi.BreakIteratorProvider;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Locale;

/**
 * Thai break iterators for a Java runtime that was stripped of its Thai locale data.
 *
 * <p>OpenSearch builds the {@code thai} analyzer with every index, and Lucene refuses to build it
 * where the runtime cannot break Thai text. Thai is written without spaces; a full runtime's
 * iterators have a dictionary for it. These have none: they break where the root locale does and
 * before every leading vowel, which always begins a syllable. That is coarser, so this provider is
 * switched on only where {@link ThaiProbe} says that the runtime cannot do it.
 */
public final class ThaiBreakIteratorProvider extends BreakIteratorProvider {

  @Override
  public Locale[] getAvailableLocales() {
    return new Locale[] {Locale.forLanguageTag("th"), Locale.forLanguageTag("th-TH")};
  }

  @Override
  public BreakIterator getWordInstance(Locale locale) {
    return new LeadingVowelIterator(BreakIterator.getWordInstance(Locale.ROOT));
  }

  @Override
  public BreakIterator getLineInstance(Locale locale) {
    return new LeadingVowelIterator(BreakIterator.getLineInstance(Locale.ROOT));
  }

  @Override
  public BreakIterator getCharacterInstance(Locale locale) {
    return BreakIterator.getCharacterInstance(Locale.ROOT);
  }

  @Override
  public BreakIterator getSentenceInstance(Locale locale) {
    return BreakIterator.getSentenceInstance(Locale.ROOT);
  }

  /** The boundaries of another iterator, and one before each of เ แ โ ใ ไ. */
  private static final class LeadingVowelIterator extends BreakIterator {
    private static final char FIRST_LEADING_VOWEL = '\u0E40';
    private static final char LAST_LEADING_VOWEL = '\u0E44';

    private final BreakIterator root;
    private int[] boundaries = {0};
    private int position;

    LeadingVowelIterator(BreakIterator root) {
      this.root = root;
    }

    @Override
    public void setText(CharacterIterator text) {
      root.setText(text);
      boundaries = merge(root, text);
      first();
    }

    @Override
    public CharacterIterator getText() {
      return root.getText();
    }

    @Override
    public int first() {
      return moveTo(0);
    }

    @Override
    public int last() {
      return moveTo(boundaries.length - 1);
    }

    @Override
    public int current() {
      return boundaries[position];
    }

    @Override
    public int next() {
      return next(1);
    }

    @Override
    public int previous() {
      return next(-1);
    }

    @Override
    public int next(int count) {
      long target = (long) position + count;
      if (target < 0) {
        first();
        return DONE;
      }
      if (target >= boundaries.length) {
        last();
        return DONE;
      }
      return moveTo((int) target);
    }

    @Override
    public int following(int offset) {
      if (offset < boundaries[0] || offset > boundaries[boundaries.length - 1]) {
        throw new IllegalArgumentException("offset out of bounds: " + offset);
      }
      int found = Arrays.binarySearch(boundaries, offset);
      int after = found >= 0 ? found + 1 : -found - 1;
      return next(after - position);
    }

    @Override
    public Object clone() {
      LeadingVowelIterator copy = new LeadingVowelIterator((BreakIterator) root.clone());
      copy.boundaries = boundaries;
      copy.position = position;
      return copy;
    }

    private int moveTo(int index) {
      position = index;
      CharacterIterator text = root.getText();
      if (text != null) {
        text.setIndex(boundaries[index]);
      }
      return boundaries[index];
    }

    private static int[] merge(BreakIterator root, CharacterIterator text) {
      int begin = text.getBeginIndex();
      BitSet breaks = new BitSet();
      for (int at = root.first(); at != DONE; at = root.next()) {
        breaks.set(at - begin);
      }
      for (char here = text.first(); here != CharacterIterator.DONE; here = text.next()) {
        if (here >= FIRST_LEADING_VOWEL && here <= LAST_LEADING_VOWEL) {
          breaks.set(text.getIndex() - begin);
        }
      }
      return breaks.stream().map(at -> at + begin).toArray();
    }
  }
}
