//! What the open device promises, on the reference device and the minimal one: results, what is counted, warned of and refused,
//! where memory goes, which ops a device may take.

mod fused;
mod in_place;
mod memory;
mod operations;
mod quantized;
mod round_trips;
mod training;
