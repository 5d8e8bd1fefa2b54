//! The crate's surface as code: what compiles here must go on compiling.

mod bare;
mod traits;
mod values;
