"""What rules read: streams that are given, streams that rules make, and the rules at work."""
