"""The rule writer's workbench: test, sweep, diff, why, label, backtest. One file for each pass."""
