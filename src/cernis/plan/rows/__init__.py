"""Plans of MATCH_RECOGNIZE clauses: what the host computes, and what the matcher does."""
