//! What only the engine on a folder can suffer: clocks that are set, records that rot, disks that fill up,
//! folders that an older version wrote.

mod clock;
mod running;
mod store_command;
