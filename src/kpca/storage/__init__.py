"""Where rows lie: arrays, frames and files, each opened by one file of this folder, none of them checked here."""
