#include "bundled.h"
#include "cpu.h"

uint32_t bundle_level(void)
{
    return 1 + (uint32_t)cpu_level_in_use() + (cpu_has_vnni() ? 16 : 0) + (cpu_has_avx_vnni() ? 32 : 0);
}

void bundle_cap(const char *isa)
{
    (void)cpu_cap(isa, NULL);
}
