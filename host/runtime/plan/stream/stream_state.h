/* plan/stream/stream_state.h - the state of a stream. Private to this folder. */
#ifndef PLAN_STREAM_STATE_H
#define PLAN_STREAM_STATE_H
#include "plan/stream/stream.h"
#include <pthread.h>

typedef enum range_state { RANGE_ABSENT, RANGE_LOADING, RANGE_PRESENT } range_state;

/* A part of divided weights. */
typedef struct stream_part {
    uint64_t used;    /* time of the last use (weight_stream.clock); 0: not in memory */
    uint32_t pins;    /* steps that read it now */
    uint32_t pending; /* requests to the disk that fill the slot */
    char *slot;       /* memory of its own that it is read into; NULL: the mapping of its file is read */
    uint64_t left;    /* bytes that the disk has not delivered */
} stream_part;

typedef struct stream_parts {
    uint64_t bytes; /* of a part */
    uint32_t count;
    bool searched;      /* the next two members are known */
    int file;           /* in stream_direct; -1: parts are read by the mapping */
    uint64_t offset;    /* in the file */
    stream_part list[]; /* [count] */
} stream_parts;

/* Weights in consecutive bytes of a file, in memory completely or not at all. */
typedef struct stream_range {
    char *data;
    uint64_t bytes;
    uint32_t users;       /* entries of step_weights; 0: the range is unused, and its place may be reused */
    uint32_t read_by;     /* users that read all of it; 0: pages are read when they are used */
    uint32_t first, last; /* positions of the first and the last step of a run that read all of it */
    uint32_t pins;        /* steps that read it now */
    stream_parts *parts;  /* NULL: the weights are not divided, or there was no memory */
    range_state state;
    bool resident; /* stays in memory once it was read */
    bool repeated; /* a run reads it several times */
} stream_range;

/* A range that a step reads. */
typedef struct weights_entry {
    uint32_t range;
    stream_use use;
} weights_entry;

struct step_weights {
    struct step_weights *next; /* in the list of the stream */
    weights_entry *entries;    /* [count] */
    uint32_t count;
    uint32_t position;
};

struct stream_direct;
struct stream_slots;

struct weight_stream {
    pthread_mutex_t lock;  /* guards all members */
    pthread_cond_t moved;  /* a range was read, or is not used any more */
    pthread_cond_t wanted; /* the thread may have something to read */
    stream_range *ranges;  /* [range_count] */
    uint32_t range_count;
    struct step_weights *steps;
    uint32_t positions; /* number of positions of a run */
    uint32_t at;        /* position of the step that began last; INLAY_NONE: none yet */
    uint32_t pinned;    /* steps that read their weights now */
    uint32_t loading;   /* ranges that are being read */
    uint64_t loaded;    /* bytes of ranges in memory, or being read, that do not stay there */
    struct {
        uint64_t bytes, ns; /* of ranges that do not stay in memory, so far */
    } reads;
    uint64_t least;               /* bytes of such ranges that are always allowed: the ranges of the largest step */
    uint64_t (*spare)(void *ctx); /* further bytes allowed now; NULL: weight_stream_begin() was not called */
    void *spare_ctx;
    uint64_t clock;     /* counts the requests for parts */
    run_parts requests; /* for runs */
    int error;          /* an errno: parts could not be read */
    bool broken;        /* the thread failed to read: it waits until a step has seen the error */
    bool ends;
    bool has_thread;
    pthread_t thread;
    struct stream_direct *direct; /* NULL: parts were not read without the system's cache of files yet */
    struct stream_slots *slots;
    bool only_mapped; /* the process cannot read without this cache */
};

/* Reads a page-aligned stretch of a mapping, without the lock. Returns an errno. */
int stream_read_pages(const char *data, uint64_t bytes, bool ahead);
/* The functions that runs call. */
run_parts stream_requests(struct weight_stream *stream);
/* Fails with INLAY_IO_ERROR; error: an errno. */
inlay_status stream_fail(int error, inlay_diag *diag);

/* All of these with the lock held. */
/* Gives the pages of ranges that do not stay in memory back until `bytes` bytes more are allowed: first those that are
 * needed last, and only those that are needed later than in `distance` steps. False: too few of them. */
bool stream_make_room(struct weight_stream *stream, uint64_t bytes, uint32_t distance);
/* Gives the pages of a range back that is in memory and not pinned. */
void stream_drop(struct weight_stream *stream, stream_range *range);
/* Gives the pages of all parts of a range back that no step reads. */
void stream_drop_parts(struct weight_stream *stream, const stream_range *range);
/* Bytes of one part of each divided weight of the step. */
uint64_t stream_part_bytes(const struct weight_stream *stream, const struct step_weights *weights);
/* The pages of a range that is read in no order are read one by one. */
void stream_advise_random(const stream_range *range);
/* Begins to read a part that is absent into a slot, if that is possible: otherwise the part has no slot. */
void stream_direct_read(struct weight_stream *stream, const stream_range *range, uint32_t index);
/* Waits until the part's slot is filled; gives the lock up meanwhile. Returns the part's address in it; NULL: the
 * mapping has to be read. */
const char *stream_direct_await(struct weight_stream *stream, const stream_range *range, uint32_t index);
/* Gives the slot of a part back, if it has one. The disk does not fill it. */
void stream_direct_forget(struct weight_stream *stream, stream_part *part);
/* Waits for all that the disk is reading into slots. */
void stream_direct_settle(struct weight_stream *stream);
/* Without the lock: releases all slots. forked: in a child of fork(), which lacks their memory. */
void stream_direct_end(struct weight_stream *stream, bool forked);

/* Memory of this size, a multiple of the page size; NULL: there is none. *inout_slots is NULL at first. */
char *stream_slots_take(struct stream_slots **inout_slots, uint64_t bytes);
void stream_slots_give(struct stream_slots *slots, const char *slot);
/* Gives the pages of all slots back that are not taken. slots may be NULL. */
void stream_slots_trim(struct stream_slots *slots);
void stream_slots_destroy(struct stream_slots *slots, bool forked);
/* Starts the thread. Without it steps read their weights themselves. */
void stream_start(struct weight_stream *stream);
#endif
