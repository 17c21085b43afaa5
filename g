well
