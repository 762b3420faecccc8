//! The kernels as machine code for each GPU family, and as PTX for later ones. They are compiled from
//! `validator/kernels` by `just kernels` and kept with the source.

macro_rules! image {
    ($name:literal) => {
        include_bytes!(concat!("../../../kernels/images/firstlight.", $name))
    };
}

/// Machine code by compute capability. Code for X.y runs on X.z where z is not less than y
/// (CUDA C++ Programming Guide, "Binary Compatibility").
static CUBINS: &[((u32, u32), &[u8])] = &[
    ((7, 5), image!("sm_75.cubin")),
    ((8, 0), image!("sm_80.cubin")),
    ((8, 6), image!("sm_86.cubin")),
    ((8, 9), image!("sm_89.cubin")),
    ((9, 0), image!("sm_90.cubin")),
    ((10, 0), image!("sm_100.cubin")),
    ((12, 0), image!("sm_120.cubin")),
];

/// PTX, which the driver compiles itself where no machine code fits; it ends with a zero, as the driver
/// requires for text.
static PTX: &[u8] =
    concat!(include_str!("../../../kernels/images/firstlight.compute_75.ptx"), "\0").as_bytes();
/// The lowest capability that the PTX runs on.
const PTX_FROM: (u32, u32) = (7, 5);

/// The image for a GPU; `None` for a GPU older than all images.
pub(super) fn fitting(capability: (u32, u32)) -> Option<&'static [u8]> {
    let (major, minor) = capability;
    let runs = |for_: (u32, u32)| for_.0 == major && for_.1 <= minor;
    let best = CUBINS.iter().filter(|(for_, _)| runs(*for_)).max_by_key(|(for_, _)| *for_);
    best.map(|(_, image)| *image).or_else(|| (capability >= PTX_FROM).then_some(PTX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(capability: (u32, u32), cubin: (u32, u32)) -> bool {
        let wanted = CUBINS.iter().find(|(c, _)| *c == cubin).map(|(_, image)| image.as_ptr());
        fitting(capability).map(<[u8]>::as_ptr) == wanted
    }

    #[test]
    fn each_gpu_gets_the_nearest_code_of_its_major_version() {
        assert!(is((8, 9), (8, 9)) && is((9, 0), (9, 0)) && is((7, 5), (7, 5)));
        assert!(is((8, 7), (8, 6)), "Orin runs GA10x code");
        assert!(is((10, 3), (10, 0)) && is((12, 1), (12, 0)));
    }

    #[test]
    fn newer_gpus_get_ptx_and_older_ones_nothing() {
        assert_eq!(fitting((11, 0)), Some(PTX));
        assert_eq!(fitting((13, 0)), Some(PTX));
        assert_eq!(fitting((7, 0)), None);
        assert_eq!(fitting((6, 1)), None);
    }
}
