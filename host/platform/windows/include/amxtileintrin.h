/* amxtileintrin.h with strides of 64 bits: GCC converts them to long, which has 32 bits here, and its assembler refuses
 * the register. */
#ifndef WINDOWS_AMXTILEINTRIN_H
#define WINDOWS_AMXTILEINTRIN_H
#include_next <amxtileintrin.h>

#undef _tile_loadd_internal
#undef _tile_stream_loadd_internal
#undef _tile_stored_internal
#define _tile_loadd_internal(tile, base, stride)                                                                       \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile ::"r"((const void *)(base)), "r"((long long)(stride)))
#define _tile_stream_loadd_internal(tile, base, stride)                                                                \
    __asm__ volatile("tileloaddt1 (%0,%1,1), %%tmm" #tile ::"r"((const void *)(base)), "r"((long long)(stride)))
#define _tile_stored_internal(tile, base, stride)                                                                      \
    __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" ::"r"((void *)(base)), "r"((long long)(stride)) : "memor"  \
                                                                                                              "y")
#endif
