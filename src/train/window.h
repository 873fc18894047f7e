/* window.h - how much of the gradients is under way between ranks at once. The exchange reserves
 * its memory by it, and predictions count messages and memory by it. */
#ifndef QKV_SRC_TRAIN_WINDOW_H
#define QKV_SRC_TRAIN_WINDOW_H

/* Numbers of a slice that one message carries; windows under way at once; buckets
 * that wait for messages before a backward pass waits for them, where gradients come and go. */
enum { QKV__WINDOW = 1 << 20, QKV__FLIGHTS = 4, QKV__WAITING = 8 };

#endif
