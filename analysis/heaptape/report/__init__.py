"""The HTML pages and the notebook."""
