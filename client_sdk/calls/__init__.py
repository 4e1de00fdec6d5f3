"""What happens around a call: what it says, tries and hedges, answers gathered from many."""
