/* chip.h - the driver of a simulated accelerator, so that this sample runs anywhere. A real driver comes from the
 * vendor.
 *
 * The chip has separate memory with device addresses that a CPU cannot access, and two queues that work concurrently:
 * one copies, one computes. A queue processes its jobs in order; jobs of different queues end in any order. The chip
 * can also read host memory, but slowly, so only scalars are read from there. */
#ifndef CHIP_H
#define CHIP_H
#include <stdbool.h>
#include <stdint.h>

struct chip;

enum { CHIP_ALIGNMENT = 256, CHIP_MOST_BOUND = 64, CHIP_MOST_COPIES = CHIP_MOST_BOUND / 2 };

/* Starts the chip; NULL: no memory or no threads. lose_after: the number of the job at which the chip fails, 0 = never.
 */
struct chip *chip_open(uint64_t memory_bytes, int64_t lose_after);
/* Completes the queued jobs, then stops. No other call may be in progress. */
void chip_close(struct chip *chip);

/* Returns a device address, a multiple of CHIP_ALIGNMENT; 0: the memory is full. */
uint64_t chip_alloc(struct chip *chip, uint64_t bytes);
void chip_free(struct chip *chip, uint64_t address);

/* Copies data, such as weights, to device memory that no job is using. */
void chip_write(struct chip *chip, uint64_t address, const void *data, uint64_t bytes);

enum { CHIP_ADD, CHIP_MUL, CHIP_RELU, CHIP_CLIP, CHIP_MATMUL };

/* One operation on floats. Operands are indices of bound addresses. ADD, MUL, RELU: y[n] from a[n] (and b[n]). CLIP:
 * y[n] from a[n], bounds from the scalars at low and high. MATMUL: y[m][n] = a[m][k] * b[k][n]. */
typedef struct chip_op {
    int kind;
    uint32_t a, b, y;
    uint32_t low, high; /* CHIP_MOST_BOUND: no bound */
    int64_t m, k, n;
} chip_op;

typedef enum chip_result { CHIP_DONE, CHIP_STOPPED, CHIP_LOST } chip_result;
typedef enum chip_queue { CHIP_COPIES, CHIP_COMPUTE, CHIP_QUEUES } chip_queue;

/* A job. The caller owns it again when end() is called. ready and stop are called on the queue's thread. */
typedef struct chip_job {
    struct chip_job *next;
    void *user;
    bool (*ready)(struct chip_job *job);                   /* waits for the job's dependencies; false: skip the work */
    bool (*stop)(struct chip_job *job);                    /* called about every millisecond */
    void (*end)(struct chip_job *job, chip_result result); /* the last access to the job */
    const chip_op *ops;                                    /* [op_count], must outlive the job */
    uint32_t op_count;
    uint32_t copy_count;              /* instead of operations: copy k is from bound[2 * k] to bound[2 * k + 1] */
    uint64_t bytes[CHIP_MOST_COPIES]; /* sizes of the copies */
    uint64_t bound[CHIP_MOST_BOUND];  /* addresses of the operands */
} chip_job;

void chip_submit(struct chip *chip, chip_queue which, chip_job *job);
/* Returns when no job is queued or in progress. */
void chip_drain(struct chip *chip);
#endif
