/* chip.h - the driver of an accelerator that is not there, so that this sample runs anywhere. Yours comes from a
 * vendor.
 *
 * The chip has memory of its own, known by device addresses that a CPU cannot follow, and two queues that work side by
 * side: one copies, one computes. A queue does its jobs in order; jobs of two queues end in any order. The chip reads
 * host memory, too, but slowly: for scalars. */
#ifndef CHIP_H
#define CHIP_H
#include <stdbool.h>
#include <stdint.h>

typedef struct chip chip;

enum { CHIP_ALIGNMENT = 256, CHIP_MOST_BOUND = 64 };

/* Starts the chip; NULL: no memory or no threads. lose_after: the job at which it falls off the bus, 0 = never. */
chip *chip_open(uint64_t memory_bytes, int64_t lose_after);
/* Does what is queued, then stops. No other call may be in progress. */
void chip_close(chip *c);

/* A device address, a multiple of CHIP_ALIGNMENT; 0: the memory is full. */
uint64_t chip_alloc(chip *c, uint64_t bytes);
void chip_free(chip *c, uint64_t address);

/* Writes device memory that no job uses, for weights. */
void chip_write(chip *c, uint64_t address, const void *data, uint64_t bytes);

/* ------------------------------------------------------------------ jobs */

enum { CHIP_ADD, CHIP_MUL, CHIP_RELU, CHIP_CLIP, CHIP_MATMUL };

/* One operation on floats. Operands are indexes of bound addresses.
 * ADD, MUL, RELU: y[n] from a[n] (and b[n]).  CLIP: y[n] from a[n], bounds from the scalars at low and high.
 * MATMUL: y[m][n] = a[m][k] * b[k][n]. */
typedef struct chip_op {
    int kind;
    uint32_t a, b, y;
    uint32_t low, high; /* CHIP_MOST_BOUND: no bound */
    int64_t m, k, n;
} chip_op;

typedef enum chip_result { CHIP_DONE, CHIP_STOPPED, CHIP_LOST } chip_result;
typedef enum chip_queue { CHIP_COPIES, CHIP_COMPUTE, CHIP_QUEUES } chip_queue;

/* Caller-owned from end() on. ready and stop are called on the queue's thread. */
typedef struct chip_job {
    struct chip_job *next;
    void *user;
    bool (*ready)(struct chip_job *job);                   /* waits for what comes before; false: leave the work out */
    bool (*stop)(struct chip_job *job);                    /* asked every millisecond or so */
    void (*end)(struct chip_job *job, chip_result result); /* the last that is heard of the job */
    const chip_op *ops;                                    /* [op_count] that outlive the job; 0: a copy */
    uint32_t op_count;
    uint64_t bound[CHIP_MOST_BOUND]; /* addresses of the operands; a copy goes from [0] to [1] */
    uint64_t bytes;                  /* of a copy */
} chip_job;

void chip_submit(chip *c, chip_queue queue, chip_job *job);
/* Returns when no job is queued or in work. */
void chip_drain(chip *c);
#endif
