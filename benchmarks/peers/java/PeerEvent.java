/** An event as both engines want it: a plain object with public fields and getters. */
public class PeerEvent {
    public long row;
    public long ts;
    public String type;
    public long key;
    public long price;

    public PeerEvent() {}

    public PeerEvent(long row, long ts, String type, long key, long price) {
        this.row = row;
        this.ts = ts;
        this.type = type;
        this.key = key;
        this.price = price;
    }

    public long getRow() { return row; }
    public long getTs() { return ts; }
    public String getType() { return type; }
    public long getKey() { return key; }
    public long getPrice() { return price; }
}
