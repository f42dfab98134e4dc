"""The version of the distribution, also if it is not installed."""

VERSION = "0.1.0"
