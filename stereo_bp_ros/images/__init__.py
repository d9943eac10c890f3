"""Images as they come, and how they are read, decoded and shown."""
