/* Devices: what the machine has, and what an execution provider supports. */
#include "ort.h"
#include <string.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif

/* The vendors of CPUs: the name that the CPU reports, and the number of PCI. */
static const struct vendor {
    const char *name;
    uint32_t id;
} vendors[] = { { "GenuineIntel", 0x8086 }, { "AuthenticAMD", 0x1022 }, { "unknown", 0 } };

static const struct vendor *cpu_vendor(void)
{
    const struct vendor *vendor = vendors;

#ifdef __x86_64__
    unsigned highest, words[3];

    if (__get_cpuid(0, &highest, &words[0], &words[2], &words[1]) != 0)
        while (vendor->id != 0 && memcmp(vendor->name, words, sizeof words) != 0)
            vendor++;
    return vendor;
#else
    while (vendor->id != 0)
        vendor++;
    return vendor;
#endif
}

static OrtHardwareDevice cpu;

static void make_cpu(void)
{
    cpu.vendor_id = cpu_vendor()->id;
    cpu.vendor = cpu_vendor()->name;
}

const OrtHardwareDevice *ort_cpu(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, make_cpu);
    return &cpu;
}

OrtHardwareDeviceType ort_HardwareDevice_Type(const OrtHardwareDevice *device)
{
    return device->type;
}

uint32_t ort_HardwareDevice_VendorId(const OrtHardwareDevice *device)
{
    return device->vendor_id;
}

const char *ort_HardwareDevice_Vendor(const OrtHardwareDevice *device)
{
    return device->vendor;
}

uint32_t ort_HardwareDevice_DeviceId(const OrtHardwareDevice *device)
{
    return device->device_id;
}

const OrtKeyValuePairs *ort_HardwareDevice_Metadata(const OrtHardwareDevice *device)
{
    return &device->metadata;
}

const char *ort_EpDevice_EpName(const OrtEpDevice *ep_device)
{
    return ep_device->name;
}

const char *ort_EpDevice_EpVendor(const OrtEpDevice *ep_device)
{
    return ep_device->vendor;
}

const OrtKeyValuePairs *ort_EpDevice_EpMetadata(const OrtEpDevice *ep_device)
{
    return &ep_device->metadata;
}

const OrtKeyValuePairs *ort_EpDevice_EpOptions(const OrtEpDevice *ep_device)
{
    return &ep_device->options;
}

const OrtHardwareDevice *ort_EpDevice_Device(const OrtEpDevice *ep_device)
{
    return ep_device->device;
}

const OrtMemoryInfo *ort_EpDevice_MemoryInfo(const OrtEpDevice *ep_device, OrtDeviceMemoryType memory_type)
{
    return memory_type == 0 ? ep_device->memory : ep_device->shared_memory;
}
