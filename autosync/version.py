"""The version of the distribution, whether or not it is installed."""

VERSION = "0.1.0"
