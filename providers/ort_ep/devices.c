/* Devices and kinds of memory, as a library queries and creates them. */
#include "ort_ep/provider.h"
#include <stdlib.h>
#include <string.h>

OrtStatus *ort_CreateEpDevice(OrtEpFactory *ep_factory, const OrtHardwareDevice *hardware_device,
                              const OrtKeyValuePairs *ep_metadata, const OrtKeyValuePairs *ep_options,
                              OrtEpDevice **ep_device)
{
    OrtEpDevice *device;

    ORT_NEED(ep_factory);
    ORT_NEED(hardware_device);
    ORT_NEED(ep_device);
    *ep_device = NULL;
    device = calloc(1, sizeof *device);
    if (device == NULL)
        return ort_no_memory();
    device->factory = ep_factory;
    device->device = hardware_device;
    device->name = ep_factory->GetName(ep_factory);
    device->vendor = ep_factory->GetVendor(ep_factory);
    if ((ep_metadata != NULL && !ort_pairs_copy(&device->metadata, ep_metadata)) ||
        (ep_options != NULL && !ort_pairs_copy(&device->options, ep_options))) {
        ort_ReleaseEpDevice(device);
        return ort_no_memory();
    }
    *ep_device = device;
    return NULL;
}

void ort_ReleaseEpDevice(OrtEpDevice *device)
{
    if (device == NULL)
        return;
    ort_pairs_clear(&device->metadata);
    ort_pairs_clear(&device->options);
    free(device);
}

OrtStatus *ort_EpDevice_AddAllocatorInfo(OrtEpDevice *ep_device, const OrtMemoryInfo *allocator_memory_info)
{
    ORT_NEED(ep_device);
    ORT_NEED(allocator_memory_info);
    if (allocator_memory_info->type == ORT_READ_ONLY_ALLOCATOR)
        return NULL; /* for constants only, which can be in the other memory, too */
    if (allocator_memory_info->device_memory == 0)
        ep_device->memory = allocator_memory_info;
    else
        ep_device->shared_memory = allocator_memory_info;
    return NULL;
}

OrtStatus *ort_CreateHardwareDevice(OrtHardwareDeviceType type, uint32_t vendor_id, uint32_t device_id,
                                    const char *vendor_name, const OrtKeyValuePairs *metadata,
                                    OrtHardwareDevice **hardware_device)
{
    OrtHardwareDevice *device;

    ORT_NEED(vendor_name);
    ORT_NEED(hardware_device);
    *hardware_device = NULL;
    device = calloc(1, sizeof *device);
    if (device == NULL)
        return ort_no_memory();
    device->type = type;
    device->vendor_id = vendor_id;
    device->device_id = device_id;
    device->vendor = strdup(vendor_name);
    if (device->vendor == NULL || (metadata != NULL && !ort_pairs_copy(&device->metadata, metadata))) {
        ort_ReleaseHardwareDevice(device);
        return ort_no_memory();
    }
    *hardware_device = device;
    return NULL;
}

void ort_ReleaseHardwareDevice(OrtHardwareDevice *device)
{
    if (device == NULL || device == ort_cpu())
        return;
    free((char *)(uintptr_t)device->vendor);
    ort_pairs_clear(&device->metadata);
    free(device);
}

static const OrtMemoryInfo *info_of(const OrtMemoryDevice *device)
{
    return (const OrtMemoryInfo *)(const void *)device;
}

const OrtMemoryDevice *ort_MemoryInfo_GetMemoryDevice(const OrtMemoryInfo *memory_info)
{
    return (const OrtMemoryDevice *)(const void *)memory_info;
}

const OrtMemoryDevice *ort_Value_GetMemoryDevice(const OrtValue *value)
{
    return ort_MemoryInfo_GetMemoryDevice(value->memory);
}

bool ort_MemoryDevice_AreEqual(const OrtMemoryDevice *a, const OrtMemoryDevice *b)
{
    const OrtMemoryInfo *one = info_of(a), *other = info_of(b);

    return one->device_type == other->device_type && one->device_memory == other->device_memory &&
           one->vendor == other->vendor && one->id == other->id;
}

OrtMemoryInfoDeviceType ort_MemoryDevice_GetDeviceType(const OrtMemoryDevice *memory_device)
{
    return info_of(memory_device)->device_type;
}

OrtDeviceMemoryType ort_MemoryDevice_GetMemoryType(const OrtMemoryDevice *memory_device)
{
    return info_of(memory_device)->device_memory;
}

uint32_t ort_MemoryDevice_GetVendorId(const OrtMemoryDevice *memory_device)
{
    return info_of(memory_device)->vendor;
}

uint32_t ort_MemoryDevice_GetDeviceId(const OrtMemoryDevice *memory_device)
{
    return (uint32_t)info_of(memory_device)->id;
}
