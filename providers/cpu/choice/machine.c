/* The constants were fitted to layers on a Zen 4, whose vectors of 512 bits take two cycles; multiply-adds and other
 * instructions are scaled separately. */
#include "cpu/choice/machine.h"
#include "inlay/check.h"
#include "inlay/extensions.h"
#include "inlay/host.h"
#include "simd/cpu.h"
#include <math.h>

#define REFERENCE_FLOPS 320.0   /* per nanosecond, of a core of pace 1 */
#define REFERENCE_LIMIT 250.0   /* the same, where loads and stores limit products, too */
#define DENSE_SHARE 0.97        /* of the core's multiply-adds that a product can use */
#define AVX2_OTHER 1.2          /* time of other instructions with AVX2, relative to AVX-512, on that core */
#define FITTED_CORE_BYTES 220.0 /* bytes per nanosecond from the nearest cache, of the core of the constants */
#define FITTED_FLOPS 45.0       /* operations per ns of that core in registers of 16 bytes, as of plain code */
#define SMALL_MOVE 262144.0     /* bytes of an image that changes its layout in the near cache */
#define SMALL_MOVE_PER_NS 32.0  /* bytes whose layout changes per nanosecond in the near cache */
#define MOVE_PER_NS 22.0        /* and in the shared cache */
#define MIN_MOVED 24576         /* elements whose layout several threads change (region/copies.c) */
#define MOVED_GRAIN 16384
#define GATHERED_ROW_NS 3.0
#define BORDER_SHARE 0.5  /* of the time of a change of layout, if the image is copied into one with a border anyway */
#define FETCHED_AHEAD 1.3 /* speed of packed weights from the shared cache, relative to other data, at most */
#define TRANSFORM_NS 0.25 /* Winograd's transform of one number of low-bit weights */
enum { LANES = 16, TILE_PIXELS = 14, TILE_VECTORS = 2 };

/* The time of other instructions than multiply-adds, relative to the core of the constants. With AVX-512, a core that
 * loads more in a cycle is faster, and one of a slower clock slower. */
static double other_time(const inlay_speed *speed, const price_memory *memory)
{
    const double loads = FITTED_CORE_BYTES / memory->core;

    if (!cpu_has(CPU_AVX512))
        return loads * AVX2_OTHER;
    return speed != NULL && speed->flops_baseline > 0 ? loads * fmax(FITTED_FLOPS / speed->flops_baseline, 1) : loads;
}

/* Plain code, in registers of 16 bytes, shows whether additions have units of their own: such a core does about 0.83
 * times as many operations per register as with full vectors of multiply-adds, which count twice. A core without has
 * three units of 16 bytes for both, and joins two of them for vectors of 64 bytes. */
static double adders_of(const inlay_speed *speed)
{
    const double whole = 0.83, parts = 4; /* of 16 bytes in 64 */

    if (!cpu_has(CPU_AVX512) || speed == NULL || !(speed->flops_v4 > 0) || !(speed->flops_baseline > 0))
        return 1;
    return fmin(fmax(2 * parts * speed->flops_baseline / speed->flops_v4 / whole - 1, 0.5), 1);
}

kernel_machine kernel_machine_of(const inlay_host *host)
{
    const inlay_speed *speed = cpu_measured_speed(host);
    const cpu_pace reference = cpu_reference_pace(), local = cpu_local_pace(speed);
    const price_memory memory = price_memory_of(host);

    return (kernel_machine){ .flops = fmin(DENSE_SHARE * REFERENCE_FLOPS * local.multiply,
                                           REFERENCE_LIMIT * reference.multiply),
                             .other = other_time(speed, &memory),
                             .adders = adders_of(speed),
                             .memory = memory };
}

double kernel_product_ns(const kernel_machine *machine, double pixels, double vectors, double depth)
{
    return 2 * pixels * vectors * LANES * depth / machine->flops;
}

double kernel_tile_ns(const kernel_machine *machine, double depth)
{
    return kernel_product_ns(machine, TILE_PIXELS, TILE_VECTORS, depth) + KERNEL_TILE_START_NS * machine->other;
}

double kernel_vector_ns(const kernel_machine *machine, double taps)
{
    return machine->other * (2.6 + 0.31 * taps);
}

double kernel_reorder_ns(const kernel_machine *machine, double bytes, double threads)
{
    const double sharing = bytes / 4 < MIN_MOVED ? 1 : price_loop_threads(bytes / 4, MOVED_GRAIN, threads);

    return KERNEL_CALL_NS + (sharing > 1 ? machine->memory.team_ns : 0) +
           price_reorder_ns(&machine->memory, bytes, bytes <= SMALL_MOVE ? SMALL_MOVE_PER_NS : MOVE_PER_NS, sharing);
}

double kernel_entry_share(kernel_id kernel, const kernel_conv_shape *window)
{
    if (kernel == KERNEL_PLANES || kernel == KERNEL_ROWS || kernel == KERNEL_FFT || window->in <= KERNEL_FEW_CHANNELS)
        return 0;
    return kernel == KERNEL_TILES && window->padded && window->width >= KERNEL_BORDER_WIDTH ? BORDER_SHARE : 1;
}

double kernel_gather_ns(const kernel_machine *machine, const kernel_conv_shape *window, int64_t width, double threads)
{
    const double rows = (double)(window->images * window->in * window->height);

    return kernel_reorder_ns(machine, rows * (double)width * sizeof(float) / 2, threads) +
           GATHERED_ROW_NS * rows * machine->other / threads;
}

double kernel_conv_bytes(kernel_id kernel, const kernel_conv_shape *window)
{
    const double per = (double)(window->in / window->group), points = (double)kernel_table[kernel].points;
    const double taps = (double)(window->kernel[0] * window->kernel[1]);

    if (kernel == KERNEL_WINOGRAD_4 || kernel == KERNEL_WINOGRAD_2)
        return 4 * points * points * per * ceil((double)window->out / (TILE_VECTORS * LANES)) * TILE_VECTORS * LANES;
    return 4 * taps * per * (double)window->out;
}

double kernel_weights_ns(const kernel_machine *machine, double bytes, double all, double threads)
{
    price_memory memory = machine->memory;

    INLAY_CHECK(threads >= 1);
    /* A core that copies no faster than it reads gets no more lines of that cache at once. */
    memory.shared = fmax(memory.shared, fmin(memory.shared * FETCHED_AHEAD, memory.copied));
    return price_weights_ns(&memory, bytes, all, threads);
}

double kernel_conv_ns(kernel_id kernel, const kernel_conv_shape *window, const kernel_machine *machine, double all,
                      bool low_bit, double threads)
{
    const int64_t points = kernel_table[kernel].points;
    const double ns = fmax(kernel_table[kernel].conv_ns(window, machine, threads),
                           kernel_weights_ns(machine, kernel_conv_bytes(kernel, window), all, threads));

    return points > 0 && points != FFT_POINTS && low_bit
               ? ns + (double)(window->in * window->out * points * points) * TRANSFORM_NS / threads
               : ns;
}
