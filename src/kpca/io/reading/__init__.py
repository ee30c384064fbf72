"""How files, frames and arrays become tables: formats, roles of columns, and rows in chunks."""
