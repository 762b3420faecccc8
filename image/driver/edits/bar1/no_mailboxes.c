// SPDX-License-Identifier: MIT
// firstlight: no peer-to-peer through mailboxes where BAR1 was requested. With ForceP2P the driver reports mailbox peers
// when BAR1 peer-to-peer is not possible. Mailboxes of a GeForce do not deliver data: a copy succeeds, but zeros arrive.

#include "core/core.h"
#include "gpu/gpu.h"
#include "gpu_mgr/gpu_mgr.h"
#include "kernel/gpu/bif/kernel_bif.h"
#include "nvrm_registry.h"
#include "platform/p2p/p2p_caps.h"
#include "ctrl/ctrl0000/ctrl0000system.h"

NV_STATUS p2pGetCapsStatusOfDriver(NvU32 gpuMask, NvU8 *pWrite, NvU8 *pRead, NvU8 *pAtomics, P2P_CONNECTIVITY *pConnectivity);

NV_STATUS p2pGetCapsStatus(NvU32 gpuMask, NvU8 *pWrite, NvU8 *pRead, NvU8 *pAtomics, P2P_CONNECTIVITY *pConnectivity)
{
    NV_STATUS status = p2pGetCapsStatusOfDriver(gpuMask, pWrite, pRead, pAtomics, pConnectivity);
    NvU32 instance = 0;
    OBJGPU *pGpu;

    if (status != NV_OK || *pConnectivity != P2P_CONNECTIVITY_PCIE_PROPRIETARY)
        return status;

    while ((pGpu = gpumgrGetNextGpu(gpuMask, &instance)) != NULL)
    {
        if (GPU_GET_KERNEL_BIF(pGpu)->pcieP2PType == NV_REG_STR_RM_PCIEP2P_TYPE_BAR1)
        {
            *pWrite = *pRead = *pAtomics = NV0000_P2P_CAPS_STATUS_NOT_SUPPORTED;
            *pConnectivity = P2P_CONNECTIVITY_UNKNOWN;
            return NV_OK;
        }
    }
    return NV_OK;
}
