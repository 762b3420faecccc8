//! `unpack-image DIR`: writes the shipped image's root into a folder, without the driver that it contains, so that the
//! shipped init can be started in it on a machine that has its own driver (tests/hardware/whole-line.sh).
//! `unpack-image DIR --whole` omits nothing, for `firstlight --root DIR image`.

use harness::Image;
use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let to = words.next().ok_or("unpack-image: which folder?")?;
    let whole = match words.next().as_deref() {
        None => false,
        Some("--whole") => true,
        Some(other) => return Err(format!("unpack-image: read {other}, allowed: --whole").into()),
    };
    let files = Image::shipped().unpack(Path::new(&to), whole)?;
    println!("{to}: {files} files of the shipped image");
    Ok(())
}
