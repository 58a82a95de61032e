/* SPDX-License-Identifier: Apache-2.0 */
/* What an agent of the paging protocol is, and what the step machine asks of its platform. */
#ifndef WEIR_PAGING_PT_AGENT_H
#define WEIR_PAGING_PT_AGENT_H

#include "weir/paging/pt_table.h"

/* What the platform is to do. */
enum pt_do {
	PT_AGAIN,    /* step again */
	PT_WAIT,     /* pause; some agent that is on its way has the page; step again */
	PT_COPY_IN,  /* copy page agent->id from the host to agent->frame, all of it; step again */
	PT_COPY_OUT, /* copy page agent->victim from agent->frame to the host; step again */
	PT_SCAN, /* agent->scan_ok = no pt_slot_lags() for any slot, the guests' too; step again */
	/* final: */
	PT_HIT,	     /* use agent->frame, until the next quiescent point or pt_unpin() */
	PT_IN_PLACE, /* use the host's bytes: one access, or until pt_unpin() */
	PT_DONE,     /* of a hint, or of an epoch's operation */
	PT_FAIL,     /* no such page; writing what is read-only; pins used up */
};

/* What an agent wants. SPAN: used through an address, for more than one access, until the next
 * quiescent point. PIN: longer than that. */
#define PT_READ 0u
#define PT_WRITE 1u
#define PT_SPAN 2u
#define PT_PIN 4u
#define PT_PREFETCH 8u /* a hint: bring it in, if that is possible at once */
#define PT_DROP 16u    /* a hint: evict it first. Contents stay */
#define PT_ADVANCE 32u /* no page: try to advance the epoch */
#define PT_STAY 64u    /* the page is not brought in for this: in place, where it is absent */
/* With one of these: it counts as so many touches, up to 2^16 - 1. 0: as its range says. */
#define PT_TOUCHES(nr) ((unsigned)(nr) << 8)

/* Positions that one fault moves each hand by at most. */
#define PT_PREPARE_MAX 8u
#define PT_TAKE_MAX 8u

/* From where pt_step() goes on. */
enum pt_pc {
	PT_PC_IDLE,
	PT_PC_ENTER_LOOK, /* coming online */
	PT_PC_ENTER_STORE,
	PT_PC_ENTER_FENCE,
	PT_PC_ENTER_CHECK,
	PT_PC_GUEST_COUNT, /* as a guest */
	PT_PC_GUEST_FENCE,
	PT_PC_GUEST_LOOK,
	PT_PC_QUIET_LOOK, /* a quiescent point */
	PT_PC_QUIET_STORE,
	PT_PC_LEAVE,
	PT_PC_LOAD, /* the page */
	PT_PC_MARK,
	PT_PC_PIN,
	PT_PC_UNPIN,
	PT_PC_REFUSE_PIN,
	PT_PC_REVIVE,
	PT_PC_DROP,
	PT_PC_TOUCH,
	PT_PC_ADMIT,
	PT_PC_FILL_LOOK,
	PT_PC_CLAIM,
	PT_PC_TAKE_HAND, /* a frame for it */
	PT_PC_PREPARE_HAND,
	PT_PC_PREPARE,
	PT_PC_VICTIM_OWNER,
	PT_PC_VICTIM,
	PT_PC_EVICT,
	PT_PC_TAKE_OWNER,
	PT_PC_TAKE_ENTRY,
	PT_PC_TICKET,
	PT_PC_FILL,
	PT_PC_TAKE_FREE,
	PT_PC_TAKE_CLEAN,
	PT_PC_TAKE_DIRTY,
	PT_PC_WRITTEN,
	PT_PC_SCAN_LOCK, /* advancing the epoch */
	PT_PC_SCAN_EPOCH,
	PT_PC_SCAN_FENCE,
	PT_PC_ADVANCE,
	PT_PC_SCAN_UNLOCK,
	PT_PC_OWN, /* the end of a fault */
	PT_PC_PUBLISH,
	PT_PC_GIVE_UP,
	PT_PC_NR
};

/* One agent's, and nobody else's. Zeroed but for slot is offline. */
struct pt_agent {
	uint64_t epoch;	 /* what its slot says, a guest's: the global one; 0: offline */
	uint64_t id;	 /* the page */
	uint64_t victim; /* the page that a frame is taken from */
	uint64_t seen;	 /* an entry as it was last seen, of one or the other */
	uint64_t global; /* the global epoch, as last read */
	uint64_t hand;	 /* the position at which a frame is sought */
	uint32_t slot;
	uint32_t frame;
	uint32_t touches;      /* that the entry had when it was claimed */
	uint32_t ahead;	       /* positions from hand to prepare */
	uint16_t nr_touches;   /* that this access counts as; 0: as its range says */
	uint8_t pc;	       /* enum pt_pc */
	uint8_t op;	       /* PT_READ ... */
	uint8_t nr_prepared;   /* positions this fault moved prepare by */
	uint8_t nr_taken;      /* and take */
	bool pinned;	       /* after a final verdict: pt_unpin() is due */
	bool ticket;	       /* hand is this agent's alone */
	bool scan_ok, scanned; /* scanned: it was tried in this fault */
	bool full;	       /* no frame was left to fill, before the entry was loaded last */
};

PT_FN bool pt_final(enum pt_do verdict)
{
	return verdict >= PT_HIT;
}

PT_FN enum pt_do pt_go(struct pt_agent *a, enum pt_pc pc)
{
	a->pc = (uint8_t)pc;
	return PT_AGAIN;
}

PT_FN enum pt_do pt_end(struct pt_agent *a, enum pt_do verdict)
{
	a->pc = PT_PC_IDLE;
	return verdict;
}

#endif
