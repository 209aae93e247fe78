"""What pages and pictures are made of: markup, the page, drawings, and the colours of all of them."""
