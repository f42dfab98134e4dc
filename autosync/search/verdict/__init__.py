"""What a search ends with: who is fastest beyond the noise, and what its decisions are worth."""
