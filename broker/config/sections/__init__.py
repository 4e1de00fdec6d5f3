"""Every option, declared once: a class for each section of the file. Of gateways also what is checked."""
