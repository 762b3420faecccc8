// SPDX-License-Identifier: MIT
// firstlight: a GPU whose BAR1 cannot hold the static map starts without it. With RMForceStaticBar1 the driver makes the map
// or does not start the GPU, and it does not count what lies before the map. A line in the kernel's log says why there is
// no map.

#include "core/core.h"
#include "gpu/bus/kern_bus.h"
#include "gpu/gpu.h"
#include "gpu/mem_mgr/mem_mgr.h"

NV_STATUS kbusIsStaticBar1SupportedOfDriver(OBJGPU *pGpu, KernelBus *pKernelBus, NvU32 gfid, NvU64 consoleSize, NvU64 mailboxSize);

NV_STATUS kbusIsStaticBar1Supported_TU102(OBJGPU *pGpu, KernelBus *pKernelBus, NvU32 gfid, NvU64 consoleSize, NvU64 mailboxSize)
{
    NV_STATUS status = kbusIsStaticBar1SupportedOfDriver(pGpu, pKernelBus, gfid, consoleSize, mailboxSize);
    NvU64 memory, start, length;
    const char *pWhy;

    // The second status: a key forces the map, and BAR1 is smaller than the memory.
    if (status != NV_OK && status != NV_ERR_INVALID_REGISTRY_KEY)
        return status;

    // The map, as kbusInitBar1 and kbusEnableStaticBar1Mapping place it.
    memory = RM_ALIGN_DOWN(memmgrGetClientFbAddrSpaceSize(pGpu, GPU_GET_MEMORY_MANAGER(pGpu)), RM_PAGE_SIZE_2M);
    start = NV_ALIGN_UP(consoleSize + mailboxSize, RM_PAGE_SIZE_512M);
    length = RM_ALIGN_DOWN(pKernelBus->bar1[gfid].mappableLength, RM_PAGE_SIZE_2M);
    if (length < memory)
        pWhy = "BAR1 is too small";
    else if (length - memory < start)
        pWhy = "a console or mailbox before it leaves too little of BAR1";
    else
        return status;

    NV_PRINTF(LEVEL_ERROR, "BAR1 peer-to-peer of %04x:%02x:%02x.0 off: %s: video memory 0x%llx, BAR1 0x%llx from 0x%llx\n",
              gpuGetDomain(pGpu), gpuGetBus(pGpu), gpuGetDevice(pGpu), pWhy, memory, length, start);
    return NV_ERR_NOT_SUPPORTED;
}
