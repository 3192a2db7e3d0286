import io.siddhi.core.SiddhiAppRuntime;
import io.siddhi.core.SiddhiManager;
import io.siddhi.core.event.Event;
import io.siddhi.core.stream.input.InputHandler;
import io.siddhi.core.stream.output.StreamCallback;
import java.util.List;

/** Siddhi: the events of a list, sent one by one; time is that of the events (playback). */
public final class SiddhiPeer {
    private static final String STREAM =
        "@app:playback define stream S (row long, ts long, type string, key long, price long); ";

    public static void main(String[] args) throws Exception {
        SiddhiManager manager = new SiddhiManager();
        Answering.answerQuestions((events, request) -> find(manager, events, request));
    }

    private static long[] find(SiddhiManager manager, List<PeerEvent> events, String request)
        throws Exception {
        String queries = Answering.member(request, "siddhi").replace(Answering.SEPARATOR, " ");
        SiddhiAppRuntime runtime = manager.createSiddhiAppRuntime(STREAM + queries);
        long[] found = new long[3];
        runtime.addCallback("Found", new StreamCallback() {
            @Override
            public void receive(Event[] matches) {
                for (Event match : matches) {
                    found[0]++;
                    found[1] += (Long) match.getData(0);
                    found[2] += (Long) match.getData(1);
                }
            }
        });
        InputHandler input = runtime.getInputHandler("S");
        runtime.start();
        for (PeerEvent event : events) {
            input.send(event.ts + 1, new Object[] {event.row, event.ts, event.type, event.key, event.price});
        }
        runtime.shutdown();
        return found;
    }
}
