"""Network layer: connections that carry requests and responses in both directions."""
