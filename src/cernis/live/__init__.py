"""Live streams in one process: inputs that grow, the engine, and sinks that get each match once.

    inputs ─▶ arrivals ─▶ bucket (buffer, session, log) ─▶ sink
                                └────── store: positions, state and output commit together

The bucket, its log and its work are those of streams on Spark (`cernis.work`). What one process
adds is here: the inputs (`inputs`), threads that read them (`arrivals`), the store (`store`), the
sinks (`sinks`) and the loop (`run`).
"""
