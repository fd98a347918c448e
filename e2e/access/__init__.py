"""Who may do what: users, service accounts, roles, and suites that run as any of them."""
