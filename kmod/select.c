// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * Which lane is the home of a new flow: the policies.
 *
 * A policy picks among candidates; what is a candidate, and the counting of
 * flows, is the same for all of them. Everything happens under
 * dev->select_lock, so that two flows that arrive together see each other.
 */
#include <linux/rculist.h>
#include <uapi/rdma/rdma_agg.h>

#include "agg.h"

/* Registered policies; they are added once, by agg_select_init(). */
static LIST_HEAD(agg_policies);

/*
 * What a lane is hashed by. It is the rail, which is the same number on both
 * hosts, where lane ids may differ; a rail that has several lanes is told
 * apart by their order, whatever state they are in.
 */
static u32 agg_lane_key(struct agg_dev *dev, const struct agg_lane *lane)
{
	const struct agg_lane *other;
	u32 before = 0;
	u8 id;

	for (id = 0; id < lane->id; id++) {
		other = rcu_dereference(dev->lanes[id]);
		if (other && other->rail == lane->rail)
			before++;
	}
	return before << 8 | lane->rail;
}

/* The one of @n candidates that the hash prefers; @only: their indices in @c. */
static unsigned int agg_select_among(struct agg_dev *dev, const struct agg_flow *flow,
				     const struct agg_candidate *c, const u8 *only,
				     unsigned int n, u32 bound, u32 *queue)
{
	struct agg_hash_lane lane[AGG_MAX_LANES];
	unsigned int i;

	for (i = 0; i < n; i++) {
		const struct agg_candidate *one = &c[only ? only[i] : i];

		lane[i].key = agg_lane_key(dev, one->lane);
		lane[i].weight = one->weight;
		lane[i].queues = one->queues;
		lane[i].flows = one->flows;
	}
	i = agg_rendezvous(agg_flow_hash(flow), lane, n, bound, queue);
	return only ? only[i] : i;
}

static unsigned int agg_select_hash(struct agg_dev *dev, const struct agg_flow *flow,
				    const struct agg_candidate *c, unsigned int n, u32 *queue)
{
	return agg_select_among(dev, flow, c, NULL, n, READ_ONCE(dev->params.load_bound), queue);
}

/*
 * The fewest outstanding bytes for the weight; of idle lanes, which is the
 * usual case when programs start, the fewest flows; of equal ones the one
 * that the hash prefers.
 */
static unsigned int agg_select_least(struct agg_dev *dev, const struct agg_flow *flow,
				     const struct agg_candidate *c, unsigned int n, u32 *queue)
{
	u64 load, least = U64_MAX;
	unsigned int i, nr = 0;
	u8 best[AGG_MAX_LANES];
	u32 flows, fewest = 0;

	for (i = 0; i < n; i++) {
		/* 1/16 byte per weight: weights are Mbit/s, bytes are many */
		load = div_u64(min_t(u64, c[i].outstanding, U64_MAX >> 4) << 4, c[i].weight);
		flows = div_u64((u64)c[i].flows * AGG_WEIGHT_MAX, c[i].weight);
		if (load > least || (load == least && flows > fewest))
			continue;
		if (load < least || flows < fewest)
			nr = 0;
		least = load;
		fewest = flows;
		best[nr++] = i;
	}
	return agg_select_among(dev, flow, c, best, nr, 0, queue);
}

/* One lane after the other, by id, whatever their weights. */
static unsigned int agg_select_rr(struct agg_dev *dev, const struct agg_flow *flow,
				  const struct agg_candidate *c, unsigned int n, u32 *queue)
{
	unsigned int i;

	lockdep_assert_held(&dev->select_lock);

	/* candidates come in the order of their ids */
	for (i = 0; i < n; i++)
		if (c[i].lane->id >= dev->rr_next)
			break;
	if (i == n)
		i = 0;
	dev->rr_next = c[i].lane->id + 1;
	agg_select_among(dev, flow, &c[i], NULL, 1, 0, queue);
	return i;
}

/*
 * Lanes on the node of the caller as long as they are below the load bound of
 * all lanes together, so that a program on one node cannot overload its lanes
 * while others idle; then the hash among all.
 */
static unsigned int agg_select_numa(struct agg_dev *dev, const struct agg_flow *flow,
				    const struct agg_candidate *c, unsigned int n, u32 *queue)
{
	u32 bound = READ_ONCE(dev->params.load_bound);
	u64 flows = 0, weight = 0;
	u8 local[AGG_MAX_LANES];
	unsigned int i, nr = 0;

	for (i = 0; i < n; i++) {
		flows += c[i].flows;
		weight += c[i].weight;
	}
	for (i = 0; i < n; i++) {
		if (!c[i].local_node ||
		    !agg_load_ok(c[i].flows, c[i].weight, flows, weight, bound))
			continue;
		local[nr++] = i;
	}
	if (!nr)
		return agg_select_hash(dev, flow, c, n, queue);
	return agg_select_among(dev, flow, c, local, nr, bound, queue);
}

static struct agg_policy agg_policy_hash = {
	.name = "hash",
	.id = RDMA_AGG_POLICY_HASH,
	.select = agg_select_hash,
};

static struct agg_policy agg_policy_least = {
	.name = "least",
	.id = RDMA_AGG_POLICY_LEAST,
	.select = agg_select_least,
};

static struct agg_policy agg_policy_rr = {
	.name = "rr",
	.id = RDMA_AGG_POLICY_RR,
	.select = agg_select_rr,
};

static struct agg_policy agg_policy_numa = {
	.name = "numa",
	.id = RDMA_AGG_POLICY_NUMA,
	.select = agg_select_numa,
};

/* @weight of a candidate; later congestion states lower it. */
static u32 agg_lane_weight(const struct agg_lane *lane)
{
	return clamp_t(u32, READ_ONCE(lane->weight), 1, AGG_WEIGHT_MAX);
}

static unsigned int agg_candidates(struct agg_dev *dev, unsigned long eligible, int node,
				   bool outstanding, struct agg_candidate *c)
{
	struct agg_lane_stats stats;
	struct agg_lane *lane;
	unsigned int n = 0;
	u8 id;

	lockdep_assert_held(&dev->select_lock);

	for (id = 0; id < AGG_MAX_LANES; id++) {
		lane = rcu_dereference(dev->lanes[id]);
		if (!lane || !(eligible & BIT(id)) || READ_ONCE(lane->dead) ||
		    !agg_lane_open(lane))
			continue;
		c[n].lane = lane;
		c[n].weight = agg_lane_weight(lane);
		c[n].flows = lane->home_flows;
		c[n].queues = clamp_t(u32, lane->nr_tx, 1, AGG_QUEUES_MAX);
		c[n].local_node = node != NUMA_NO_NODE && lane->numa_node == node;
		c[n].outstanding = 0;
		if (outstanding) {
			agg_lane_read_stats(lane, &stats);
			/* sums over CPUs that go on counting: never below 0 */
			c[n].outstanding = stats.tx_bytes -
					   min(stats.tx_bytes, stats.tx_done_bytes);
		}
		n++;
	}
	return n;
}

/**
 * agg_select_lane - choose the home lane of a flow, and count the flow on it
 * @dev: agg device
 * @flow: the flow
 * @eligible: bit per lane id that may be chosen
 * @node: NUMA node of the caller, or NUMA_NO_NODE
 * @lane: where the lane is put, with a reference for the caller
 * @queue: where the send queue within the lane is put, 0..nr_tx - 1
 *
 * Lanes that are going away or in an unusable state are left out. The lane
 * can leave the table as soon as this returns. Undone by agg_select_release()
 * and agg_lane_put().
 *
 * Context: any; takes dev->select_lock.
 * Return: 0 or -ENETUNREACH if no lane is left.
 */
int agg_select_lane(struct agg_dev *dev, const struct agg_flow *flow, unsigned long eligible,
		    int node, struct agg_lane **lane, u32 *queue)
{
	struct agg_candidate c[AGG_MAX_LANES];
	const struct agg_policy *policy;
	unsigned long flags;
	unsigned int n, i;

	rcu_read_lock();
	spin_lock_irqsave(&dev->select_lock, flags);
	policy = rcu_dereference(dev->policy);
	for (;;) {
		n = agg_candidates(dev, eligible, node, policy == &agg_policy_least, c);
		if (!n)
			break;
		/* the default without an indirect call */
		if (likely(policy == &agg_policy_hash))
			i = agg_select_hash(dev, flow, c, n, queue);
		else
			i = policy->select(dev, flow, c, n, queue);
		*lane = c[i].lane;
		if (kref_get_unless_zero(&(*lane)->ref)) {
			(*lane)->home_flows++;
			break;
		}
		/* it has just left the table */
		eligible &= ~BIT((*lane)->id);
	}
	spin_unlock_irqrestore(&dev->select_lock, flags);
	rcu_read_unlock();
	return n ? 0 : -ENETUNREACH;
}

/**
 * agg_select_better - is there a lane that a QP should rather have?
 * @qp: the QP, with a lane QP
 * @eligible: bit per lane id that may be chosen, its own included
 *
 * Only one that would then have less load for its weight than the own one has
 * now, or that is on the node of the program while the own one is not: each move
 * makes the load more even, so they come to an end.
 *
 * Context: process; takes dev->select_lock; qp->mutex is held.
 */
bool agg_select_better(const struct agg_qp *qp, unsigned long eligible)
{
	const struct agg_lane *own = qp->lqp->lane;
	struct agg_candidate c[AGG_MAX_LANES];
	struct agg_flow flow = agg_qp_flow(qp);
	struct agg_dev *dev = qp->dev;
	const struct agg_policy *policy;
	unsigned int n, i, at;
	bool better = false;
	unsigned long flags;
	u32 queue;

	rcu_read_lock();
	spin_lock_irqsave(&dev->select_lock, flags);
	policy = rcu_dereference(dev->policy);
	n = agg_candidates(dev, eligible, qp->node, false, c);
	for (at = 0; at < n && c[at].lane != own; at++)
		;
	if (at < n && n > 1) {
		c[at].flows--;
		/* What the others look at has passed when a QP moves. */
		i = policy == &agg_policy_numa ? agg_select_numa(dev, &flow, c, n, &queue) :
						 agg_select_hash(dev, &flow, c, n, &queue);
		better = (u64)(c[i].flows + 1) * c[at].weight <
			 (u64)(c[at].flows + 1) * c[i].weight;
		if (policy == &agg_policy_numa && c[i].local_node != c[at].local_node)
			better = c[i].local_node;
		if (i == at)
			better = false;
	}
	spin_unlock_irqrestore(&dev->select_lock, flags);
	rcu_read_unlock();
	return better;
}

/**
 * agg_select_account - count a flow on a lane that somebody else chose
 * @dev: agg device
 * @lane: the lane; the caller holds a reference
 *
 * For the end of a connection whose peer decides on the home path. Undone by
 * agg_select_release().
 *
 * Context: any; takes dev->select_lock.
 */
void agg_select_account(struct agg_dev *dev, struct agg_lane *lane)
{
	unsigned long flags;

	spin_lock_irqsave(&dev->select_lock, flags);
	lane->home_flows++;
	spin_unlock_irqrestore(&dev->select_lock, flags);
}

/**
 * agg_select_release - a flow has left a lane
 * @dev: agg device
 * @lane: the lane, which may have left the table; the caller holds a reference
 *
 * Context: any; takes dev->select_lock.
 */
void agg_select_release(struct agg_dev *dev, struct agg_lane *lane)
{
	unsigned long flags;
	bool last;

	spin_lock_irqsave(&dev->select_lock, flags);
	last = !--lane->home_flows;
	spin_unlock_irqrestore(&dev->select_lock, flags);
	if (last)
		wake_up_all(&lane->drained);
}

/**
 * agg_policy_find - look a policy up
 * @id: enum rdma_agg_policy
 *
 * Context: any.
 * Return: the policy, which is never freed, or NULL.
 */
const struct agg_policy *agg_policy_find(u32 id)
{
	const struct agg_policy *policy, *found = NULL;

	rcu_read_lock();
	list_for_each_entry_rcu(policy, &agg_policies, node) {
		if (policy->id == id) {
			found = policy;
			break;
		}
	}
	rcu_read_unlock();
	return found;
}

/**
 * agg_policy_default - the policy of a new device
 *
 * Context: any.
 * Return: the policy.
 */
const struct agg_policy *agg_policy_default(void)
{
	return &agg_policy_hash;
}

/**
 * agg_select_init - register the policies
 *
 * Context: module init, before the first device.
 * Return: 0.
 */
int agg_select_init(void)
{
	list_add_tail_rcu(&agg_policy_hash.node, &agg_policies);
	list_add_tail_rcu(&agg_policy_least.node, &agg_policies);
	list_add_tail_rcu(&agg_policy_rr.node, &agg_policies);
	list_add_tail_rcu(&agg_policy_numa.node, &agg_policies);
	return 0;
}

/**
 * agg_select_exit - forget the policies
 *
 * Context: module exit, after the last device.
 */
void agg_select_exit(void)
{
	INIT_LIST_HEAD(&agg_policies);
}
