import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** What every contestant written in Java does: the twin of answering.py. */
public final class Answering {
    /** Finds the matches of a question: their number, the sums of their first and last rows. */
    public interface Finder {
        long[] find(List<PeerEvent> events, String request) throws Exception;
    }

    /** Between the statements of a request. */
    public static final String SEPARATOR = " ;; ";

    /** Return the text of a member of a request, which has neither nested objects nor escapes. */
    public static String member(String request, String name) {
        Matcher found = Pattern.compile("\"" + name + "\": (?:\"([^\"]*)\"|(-?\\d+))").matcher(request);
        if (!found.find()) throw new IllegalArgumentException("no " + name);
        return found.group(1) != null ? found.group(1) : found.group(2);
    }

    public static List<PeerEvent> readEvents(String file) throws Exception {
        List<PeerEvent> events = new ArrayList<>();
        for (String line : Files.readAllLines(Path.of(file))) {
            String[] parts = line.split(",");
            events.add(new PeerEvent(Long.parseLong(parts[0]), Long.parseLong(parts[1]), parts[2],
                Long.parseLong(parts[3]), Long.parseLong(parts[4])));
        }
        return events;
    }

    public static void answerQuestions(Finder finder) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err);
        answers.println("{}");
        BufferedReader questions =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        List<PeerEvent> events = List.of();
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            try {
                if (line.startsWith("{\"open\"")) {
                    events = readEvents(member(line, "open"));
                    answers.println("{}");
                    continue;
                }
                long clock = System.nanoTime();
                long[] found = finder.find(events, line);
                double seconds = (System.nanoTime() - clock) / 1e9;
                answers.printf(java.util.Locale.ROOT, "{\"seconds\": %.6f, \"found\": [%d, %d, %d]}%n",
                    seconds, found[0], found[1], found[2]);
            } catch (Exception | StackOverflowError error) {
                Throwable cause = error;
                while (cause.getCause() != null) cause = cause.getCause();
                String text = String.valueOf(cause).replaceAll("[\\\\\"\\p{Cntrl}]", " ");
                answers.println("{\"error\": \"" + text + "\"}");
            }
            answers.flush();
        }
        System.exit(0);
    }
}
