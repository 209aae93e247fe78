"""Reports: pages for the browser, drawings and tables for the terminal. They draw what other packages found."""
