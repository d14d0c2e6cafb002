"""What the tool decorator is made of: schema, check, effect and the tool itself."""
