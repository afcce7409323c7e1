"""Commands of finance: `/price`, `/fx`, `/market` and `/news`, answered without a model by the tools' own functions."""
