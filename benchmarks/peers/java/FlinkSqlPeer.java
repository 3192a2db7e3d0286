import java.util.List;
import java.util.concurrent.atomic.AtomicLongArray;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.types.Row;

/** Flink SQL: a statement over a list of events, with one task, in this process. PyFlink runs the same. */
public final class FlinkSqlPeer {
    private static final AtomicLongArray FOUND = new AtomicLongArray(3);

    public static void main(String[] args) throws Exception {
        Answering.answerQuestions(FlinkSqlPeer::find);
    }

    private static long[] find(List<PeerEvent> events, String request) throws Exception {
        for (int i = 0; i < 3; i++) FOUND.set(i, 0);
        StreamExecutionEnvironment environment =
            StreamExecutionEnvironment.createLocalEnvironment(1, new Configuration());
        environment.getConfig().enableObjectReuse();
        StreamTableEnvironment tables = StreamTableEnvironment.create(environment);
        DataStream<PeerEvent> stream = environment.fromData(events, TypeInformation.of(PeerEvent.class));
        String lateness = Answering.member(request, "lateness");
        Schema schema = Schema.newBuilder()
            .columnByExpression("at", "TO_TIMESTAMP_LTZ(`ts`, 3)")
            .columnByExpression("level", "NULLIF(`price`, -1)") // a price that may be NULL, as LAST may
            .watermark("at", "`at` - INTERVAL '" + Long.parseLong(lateness) / 1000 + "' SECOND")
            .build();
        tables.createTemporaryView("s", tables.fromDataStream(stream, schema));
        tables.toDataStream(tables.sqlQuery(Answering.member(request, "flinksql"))).addSink(new Count());
        environment.execute();
        return new long[] {FOUND.get(0), FOUND.get(1), FOUND.get(2)};
    }

    private static final class Count
        implements org.apache.flink.streaming.api.functions.sink.legacy.SinkFunction<Row> {
        @Override
        public void invoke(Row row, Context context) {
            FOUND.incrementAndGet(0);
            FOUND.addAndGet(1, (Long) row.getField(0));
            FOUND.addAndGet(2, (Long) row.getField(1));
        }
    }
}
