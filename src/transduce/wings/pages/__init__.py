"""The parts of pages and pictures: markup, the page, drawings, and the colours of all of them."""
