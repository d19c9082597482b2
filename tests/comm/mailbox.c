/* mailbox.c - see mailbox.h. A letter is copied when it is sent. Letters and wishes match in the order of
 * both. */
#include "mailbox.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mailbox_letter {
    mailbox_letter *next;
    int from, to, tag;
    bool done, kept; /* kept: its sender frees it, after test or cancel */
    size_t bytes;
    char *data; /* a letter's own; where a wish wants it */
};

void mailbox_init(mailbox *b, int size, int hosts)
{
    *b = (mailbox){ .size = size, .broken = -1 };
    for (int r = 0; r < size; r++)
        b->machine_of[r] = r / (size / hosts) * (size / hosts);
    pthread_mutex_init(&b->lock, NULL);
    pthread_barrier_init(&b->all, NULL, (unsigned)size);
}

static void append(mailbox_letter **list, mailbox_letter *l)
{
    while (*list)
        list = &(*list)->next;
    *list = l;
}

static void take_out(mailbox_letter **list, mailbox_letter *l)
{
    while (*list != l)
        list = &(*list)->next;
    *list = l->next;
}

void mailbox_release(mailbox *b)
{
    for (mailbox_letter *l = b->letters, *next; l; l = next) {
        next = l->next;
        free(l->data);
        free(l);
    }
    pthread_barrier_destroy(&b->all);
    pthread_mutex_destroy(&b->lock);
    free(b->gathered);
}

static void describe(char text[LS_TRANSPORT_TEXT]) { snprintf(text, LS_TRANSPORT_TEXT, "mailbox"); }

static bool open_place(ls_transport *t, const void *communicator)
{
    mailbox_place *p = malloc(sizeof *p);
    *p = *(const mailbox_place *)communicator;
    t->own = p;
    t->rank = p->rank;
    t->size = p->box->size;
    t->machine = p->box->machine_of[p->rank];
    t->most_tag = MAILBOX_TAGS;
    return true;
}

static void close_place(ls_transport *t, bool orderly)
{
    (void)orderly;
    free(t->own);
}

static mailbox *box_of(const ls_transport *t) { return ((const mailbox_place *)t->own)->box; }

static bool all_gather(ls_transport *t, const void *mine, size_t bytes, void *all)
{
    mailbox *b = box_of(t);
    if (pthread_barrier_wait(&b->all) == PTHREAD_BARRIER_SERIAL_THREAD) {
        free(b->gathered);
        b->gathered = malloc(bytes * (size_t)b->size);
    }
    pthread_barrier_wait(&b->all);
    memcpy(b->gathered + bytes * (size_t)t->rank, mine, bytes);
    pthread_barrier_wait(&b->all);
    memcpy(all, b->gathered, bytes * (size_t)b->size);
    pthread_barrier_wait(&b->all);
    return true;
}

/* Every wish, oldest first, gets the oldest letter that fits. */
static void deliver(mailbox *b)
{
    for (mailbox_letter *w = b->wishes, *next; w; w = next) {
        next = w->next;
        mailbox_letter *l = b->letters;
        while (l &&
               (l->to != w->to || l->tag != w->tag || (w->from != LS_TRANSPORT_ANY && l->from != w->from)))
            l = l->next;
        if (!l)
            continue;
        if (l->bytes > w->bytes)
            abort(); /* sides that disagree about what they do */
        memcpy(w->data, l->data, l->bytes);
        w->done = true;
        take_out(&b->wishes, w);
        take_out(&b->letters, l);
        l->done = true;
        free(l->data);
        l->data = NULL;
        if (!l->kept)
            free(l);
    }
}

static bool send_letter(ls_transport *t, ls_message *m, const void *data, size_t bytes, int to, int tag)
{
    mailbox *b = box_of(t);
    mailbox_letter *l = malloc(sizeof *l);
    *l = (mailbox_letter){ .from = t->rank, .to = to, .tag = tag, .bytes = bytes, .data = malloc(bytes) };
    l->kept = b->slow;
    memcpy(l->data, data, bytes);
    pthread_mutex_lock(&b->lock);
    bool broken = b->broken == t->rank;
    m->request = b->slow && !broken ? (uint64_t)(uintptr_t)l : 0;
    if (!broken) {
        append(&b->letters, l);
        b->sent[t->rank] += (long)bytes;
        b->sends[t->rank]++;
        b->least[t->rank] = (long)bytes < b->least[t->rank] ? (long)bytes : b->least[t->rank];
        b->most[t->rank] = (long)bytes > b->most[t->rank] ? (long)bytes : b->most[t->rank];
        deliver(b);
    }
    pthread_mutex_unlock(&b->lock);
    if (broken) {
        snprintf(t->error, sizeof t->error, "the cable is cut");
        free(l->data);
        free(l);
    }
    return !broken;
}

static bool receive_letter(ls_transport *t, ls_message *m, void *data, size_t bytes, int from, int tag)
{
    mailbox *b = box_of(t);
    mailbox_letter *w = malloc(sizeof *w);
    *w = (mailbox_letter){ .from = from, .to = t->rank, .tag = tag, .bytes = bytes, .data = data };
    pthread_mutex_lock(&b->lock);
    append(&b->wishes, w);
    deliver(b);
    pthread_mutex_unlock(&b->lock);
    m->request = (uint64_t)(uintptr_t)w;
    return true;
}

static bool test(ls_transport *t, ls_message *m, bool *done)
{
    mailbox *b = box_of(t);
    mailbox_letter *w = (mailbox_letter *)(uintptr_t)m->request;
    pthread_mutex_lock(&b->lock);
    *done = !w || w->done;
    pthread_mutex_unlock(&b->lock);
    if (w && *done) {
        free(w);
        m->request = 0;
    }
    return true;
}

static bool cancel(ls_transport *t, ls_message *m)
{
    mailbox *b = box_of(t);
    mailbox_letter *w = (mailbox_letter *)(uintptr_t)m->request;
    pthread_mutex_lock(&b->lock);
    if (w && !w->done)
        take_out(w->kept ? &b->letters : &b->wishes, w);
    pthread_mutex_unlock(&b->lock);
    if (w && w->kept)
        free(w->data);
    free(w);
    m->request = 0;
    return true;
}

const ls_transport_ops mailbox_transport = { .abi = LS_TRANSPORT_ABI,
                                             .describe = describe,
                                             .open = open_place,
                                             .close = close_place,
                                             .all_gather = all_gather,
                                             .send = send_letter,
                                             .receive = receive_letter,
                                             .test = test,
                                             .cancel = cancel };
