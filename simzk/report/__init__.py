"""Tables and histories to pictures and pages."""
