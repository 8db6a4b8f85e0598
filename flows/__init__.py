"""The command line and the Prefect flows: the only place that knows how the stages are run."""
