// SPDX-License-Identifier: MIT
// firstlight: managed memory is not shared between peers through BAR1 that nvidia-uvm itself cannot reach. The resource manager
// writes the page entries of cudaMalloc and exported memory; those of managed memory, and copies of it, are nvidia-uvm's. Before
// 590 it makes an aperture of the peer's id, which such peers do not have. From 590 on it takes system memory that is not
// coherent, and the page entries and copies of GPUs before Hopper, and of Ada, do not know that aperture: the entry would lead
// to the GPU's own memory. With empty masks managed memory moves through the host, as between GPUs that are not peers.

#include "ctrl2080mc.h"
#include "uvm_global.h"
#include "uvm_gpu.h"
#include "uvm_hal_types.h"
#include "uvm_processors.h"

void firstlight_set_peer_mask(uvm_processor_mask_t *masks, uvm_processor_id_t mask, uvm_processor_id_t id);

static bool reaches(uvm_gpu_t *local, uvm_gpu_t *peer)
{
    NvU32 arch = local->parent->rm_info.gpuArch;
    uvm_aperture_t aperture;

    // Instances of one GPU
    if (local->parent == peer->parent)
        return true;
    aperture = uvm_gpu_peer_aperture(local, peer);
    if (aperture >= UVM_APERTURE_PEER_0 && aperture < UVM_APERTURE_PEER_MAX)
        return true;
    return (aperture == UVM_APERTURE_SYS || aperture == UVM_APERTURE_SYS_NON_COHERENT) &&
           arch >= NV2080_CTRL_MC_ARCH_INFO_ARCHITECTURE_GH100 && arch != NV2080_CTRL_MC_ARCH_INFO_ARCHITECTURE_AD100;
}

// As processor_mask_array_set() for two GPUs, called where two GPUs become peers
void firstlight_set_peer_mask(uvm_processor_mask_t *masks, uvm_processor_id_t mask, uvm_processor_id_t id)
{
    uvm_gpu_t *one = uvm_gpu_get(mask), *other = uvm_gpu_get(id);

    if (one != NULL && other != NULL && reaches(one, other) && reaches(other, one))
        uvm_processor_mask_set(&masks[uvm_id_value(mask)], id);
}
