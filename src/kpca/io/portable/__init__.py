"""Models as documents: what each class stores, how it is written as JSON and arrays, and how it is built again."""
