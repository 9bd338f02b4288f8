#include "serve/base/rollouts.h"
#include "inlay/check.h"
#include <stdio.h>
#include <string.h>

/* The caller holds the lock. NULL: there is none. */
static rollout_record *find(struct board *board, const char *name)
{
    for (uint32_t i = 0; i < BOARD_ROLLOUTS; i++)
        if (strcmp(board->rollouts[i].name, name) == 0)
            return &board->rollouts[i];
    return NULL;
}

/* A place for a new name: a free one, or that of a rollout which has ended. */
static rollout_record *find_place(struct board *board)
{
    rollout_record *place = find(board, "");

    for (uint32_t i = 0; place == NULL && i < BOARD_ROLLOUTS; i++)
        if (board->rollouts[i].state != ROLLOUT_RUNNING)
            place = &board->rollouts[i];
    return place;
}

inlay_status rollouts_begin(struct board *board, rollout_record *begun, bool again, uint32_t *out_index,
                            rollout_state *out_state, inlay_diag *diag)
{
    rollout_record *record;

    INLAY_CHECK(begun->name[0] != '\0' && begun->key != 0);
    board_lock(board);
    record = find(board, begun->name);
    if (record == NULL)
        record = find_place(board);
    if (record != NULL && (strcmp(record->name, begun->name) != 0 || record->key != begun->key ||
                           (again && record->state != ROLLOUT_RUNNING))) {
        memcpy(record, begun, sizeof *record);
        atomic_store(&board->rollout_requests[record - board->rollouts], 0);
        record->state = ROLLOUT_RUNNING;
    }
    if (record != NULL) {
        *out_index = (uint32_t)(record - board->rollouts);
        *out_state = record->state;
        begun->rules = record->rules;
    }
    board_unlock(board);
    return record != NULL ? INLAY_OK
                          : inlay_fail(diag, INLAY_LIMIT_EXCEEDED,
                                       "%d models have a rollout already; wait until one has ended", BOARD_ROLLOUTS);
}

static void copy(const struct board *board, const rollout_record *record, rollout_record *out)
{
    memcpy(out, record, sizeof *out);
    out->requests = atomic_load(&board->rollout_requests[record - board->rollouts]);
}

bool rollouts_read(struct board *board, const char *name, rollout_record *out)
{
    const rollout_record *record;

    board_lock(board);
    record = find(board, name);
    if (record != NULL)
        copy(board, record, out);
    board_unlock(board);
    return record != NULL;
}

uint32_t rollouts_list(struct board *board, rollout_record *out)
{
    uint32_t count = 0;

    board_lock(board);
    for (uint32_t i = 0; i < BOARD_ROLLOUTS; i++)
        if (board->rollouts[i].name[0] != '\0')
            copy(board, &board->rollouts[i], &out[count++]);
    board_unlock(board);
    return count;
}

rollout_figures *rollouts_lock(struct board *board, uint32_t index, uint64_t key)
{
    rollout_record *record = &board->rollouts[index];

    board_lock(board);
    if (record->key == key && record->state == ROLLOUT_RUNNING)
        return &record->figures;
    board_unlock(board);
    return NULL;
}

rollout_state rollouts_decide(struct board *board, uint32_t index, uint64_t key, char *reason)
{
    rollout_record *record = &board->rollouts[index];
    rollout_state state = ROLLOUT_RUNNING;

    INLAY_CHECK(index < BOARD_ROLLOUTS);
    board_lock(board);
    if (record->key == key) {
        if (record->state == ROLLOUT_RUNNING)
            record->state = rollout_decide(&record->rules, &record->figures, record->reason);
        state = record->state;
        (void)snprintf(reason, ROLLOUT_REASON_BYTES, "%s", record->reason);
    }
    board_unlock(board);
    return state;
}

bool rollouts_end(struct board *board, const char *name, uint64_t key, rollout_state state, const char *reason)
{
    rollout_record *record;
    bool ended;

    INLAY_CHECK(state != ROLLOUT_RUNNING);
    board_lock(board);
    record = find(board, name);
    ended = record != NULL && record->state == ROLLOUT_RUNNING && (key == 0 || record->key == key);
    if (ended) {
        record->state = state;
        (void)snprintf(record->reason, sizeof record->reason, "%s", reason);
    }
    board_unlock(board);
    return ended;
}
