import com.espertech.esper.common.client.EPCompiled;
import com.espertech.esper.common.client.configuration.Configuration;
import com.espertech.esper.compiler.client.CompilerArguments;
import com.espertech.esper.compiler.client.EPCompilerProvider;
import com.espertech.esper.runtime.client.EPEventService;
import com.espertech.esper.runtime.client.EPRuntime;
import com.espertech.esper.runtime.client.EPRuntimeProvider;
import java.util.List;

/** Esper: the events of a list, sent one by one with their times. */
public final class EsperPeer {
    private static long base = 0;

    public static void main(String[] args) throws Exception {
        Configuration configuration = new Configuration();
        configuration.getCommon().addEventType("Event", PeerEvent.class);
        configuration.getRuntime().getThreading().setInternalTimerEnabled(false);
        EPRuntime runtime = EPRuntimeProvider.getDefaultRuntime(configuration);
        Answering.answerQuestions((events, request) -> find(runtime, configuration, events, request));
    }

    private static long[] find(
        EPRuntime runtime, Configuration configuration, List<PeerEvent> events, String request)
        throws Exception {
        base += 100_000_000_000L; // time never goes back
        runtime.getEventService().advanceTime(base);
        long[] found = new long[3];
        for (String statement : Answering.member(request, "epl").split(Answering.SEPARATOR)) {
            EPCompiled compiled = EPCompilerProvider.getCompiler()
                .compile(statement, new CompilerArguments(configuration));
            runtime.getDeploymentService().deploy(compiled).getStatements()[0].addListener(
                (matches, gone, own, runner) -> {
                    for (var match : matches) {
                        found[0]++;
                        found[1] += (Long) match.get("first_row");
                        found[2] += (Long) match.get("last_row");
                    }
                });
        }
        EPEventService service = runtime.getEventService();
        for (PeerEvent event : events) {
            service.advanceTime(base + event.ts);
            service.sendEventBean(event, "Event");
        }
        runtime.getDeploymentService().undeployAll();
        return found;
    }
}
