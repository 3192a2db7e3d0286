"""The same questions for Cernis, for other engines, and for what people write otherwise.

`questions.py` has the questions in the language of each contestant. A contestant is a process that
holds the events in memory and answers one question after the other, over the protocol of
`answering.py`. `contestants.py` starts them, with what `installing.py` fetches; `compare.py` is
`cernis bench peers`.
"""
