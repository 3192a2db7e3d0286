import java.io.Serializable;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLongArray;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.cep.CEP;
import org.apache.flink.cep.functions.PatternProcessFunction;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.conditions.IterativeCondition;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.Collector;

/** FlinkCEP: a job over a list of events, with one task, in this process. */
public final class FlinkPeer {
    private static final AtomicLongArray FOUND = new AtomicLongArray(3);

    public static void main(String[] args) throws Exception {
        Answering.answerQuestions(FlinkPeer::find);
    }

    private static long[] find(List<PeerEvent> events, String request) throws Exception {
        for (int i = 0; i < 3; i++) FOUND.set(i, 0);
        StreamExecutionEnvironment environment =
            StreamExecutionEnvironment.createLocalEnvironment(1, new Configuration());
        environment.getConfig().enableObjectReuse();
        DataStream<PeerEvent> stream = environment
            .fromData(events, TypeInformation.of(PeerEvent.class))
            .assignTimestampsAndWatermarks(WatermarkStrategy
                .<PeerEvent>forBoundedOutOfOrderness(
                    Duration.ofMillis(Long.parseLong(Answering.member(request, "lateness"))))
                .withTimestampAssigner((event, before) -> event.ts));
        long last = 0;
        for (PeerEvent event : events) last = Math.max(last, event.ts);
        for (String sequence : Answering.member(request, "flink").split(Answering.SEPARATOR)) {
            String[] parts = sequence.split("\\|", -1);
            long window = Long.parseLong(parts[1]);
            boolean isAbsent = parts[2].equals("absent");
            DataStream<PeerEvent> own = parts[3].isEmpty() ? stream : stream.keyBy(event -> event.key);
            CEP.pattern(own, makePattern(parts, window))
                .process(new Count(isAbsent ? last - window : Long.MAX_VALUE), TypeInformation.of(Long.class))
                .addSink(new Nothing());
        }
        environment.execute();
        return new long[] {FOUND.get(0), FOUND.get(1), FOUND.get(2)};
    }

    /** The types, window, mode, key, comparisons, floors and repetition, as write.py writes them. */
    private static Pattern<PeerEvent, ?> makePattern(String[] parts, long window) {
        String[] types = parts[0].split(",");
        String[] floors = parts[5].isEmpty() ? new String[0] : parts[5].split(",");
        String[] repeated = parts[6].split(" ");
        Pattern<PeerEvent, PeerEvent> pattern = null;
        for (int i = 0; i < types.length; i++) {
            List<String[]> compared = new ArrayList<>();
            for (String each : parts[4].split(",")) {
                String[] words = each.split(" ");
                if (words.length == 5 && Integer.parseInt(words[1]) == i) compared.add(words);
            }
            String name = String.valueOf(i);
            Pattern<PeerEvent, PeerEvent> step = i == 0 ? Pattern.<PeerEvent>begin(name)
                : parts[2].equals("any") ? pattern.followedByAny(name)
                : parts[2].equals("next") ? pattern.followedBy(name)
                : pattern.notFollowedBy(name);
            long floor = floors.length > 0 ? Long.parseLong(floors[i]) : -1;
            pattern = step.where(new Condition(types[i], floor, compared));
            if (repeated[0].equals(name)) {
                pattern = repeated[2].equals("0") ? pattern.oneOrMore()
                    : pattern.times(Integer.parseInt(repeated[1]), Integer.parseInt(repeated[2]));
                pattern = pattern.allowCombinations();
            }
        }
        return pattern.within(Duration.ofMillis(window + 1));
    }

    /** An event of a type, which is compared with earlier ones. */
    private static final class Condition extends IterativeCondition<PeerEvent> implements Serializable {
        private final String type;
        private final long floor;
        private final String[] earlier;
        private final boolean[] isKey;
        private final boolean[] isEqual;
        private final long[] plus;

        Condition(String type, long floor, List<String[]> compared) {
            this.type = type;
            this.floor = floor;
            int number = compared.size();
            earlier = new String[number];
            isKey = new boolean[number];
            isEqual = new boolean[number];
            plus = new long[number];
            for (int i = 0; i < number; i++) {
                String[] words = compared.get(i);
                earlier[i] = words[0];
                isKey[i] = words[2].equals("key");
                isEqual[i] = words[3].equals("=");
                plus[i] = Long.parseLong(words[4]);
            }
        }

        @Override
        public boolean filter(PeerEvent event, Context<PeerEvent> context) throws Exception {
            if (!event.type.equals(type) || event.price <= floor) return false;
            for (int i = 0; i < earlier.length; i++) {
                PeerEvent first = context.getEventsForPattern(earlier[i]).iterator().next();
                long before = (isKey[i] ? first.key : first.price) + plus[i];
                long now = isKey[i] ? event.key : event.price;
                if (isEqual[i] ? now != before : now <= before) return false;
            }
            return true;
        }
    }

    private static final class Count extends PatternProcessFunction<PeerEvent, Long> {
        private final long before;

        Count(long before) {
            this.before = before;
        }

        @Override
        public void processMatch(Map<String, List<PeerEvent>> match, Context context, Collector<Long> out) {
            PeerEvent first = match.get("0").get(0);
            if (first.ts >= before) return; // not certain when the events end
            List<PeerEvent> ends = match.get(String.valueOf(match.size() - 1));
            FOUND.incrementAndGet(0);
            FOUND.addAndGet(1, first.row);
            FOUND.addAndGet(2, ends.get(ends.size() - 1).row);
        }
    }

    private static final class Nothing
        implements org.apache.flink.streaming.api.functions.sink.legacy.SinkFunction<Long> {}
}
