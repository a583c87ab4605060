// Calls of franz-go's admin client kadm at three brokers.
//
//	kadm_client ADDRESSES
//
// It reads names of steps, one a line, and prints the answer of each as one line of JSON. With the one argument `steps` it
// prints the names in their order; those that only read begin with "? ", and may be asked again.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	baseMs  = 1700000000000
	orders  = "orders"
	moved   = "moved"
	missing = "missing"
	txnID   = "transfer"
	static  = "instance-1"
)

type step struct {
	name  string
	reads bool
	ask   func(*session) any
}

type session struct {
	context  context.Context
	seeds    []string
	client   *kgo.Client
	admin    *kadm.Client
	consumer *kgo.Client
	producer *kgo.Client
}

// Two results of a call, or an error alone.
func both(value any, err error) any {
	if err != nil {
		return map[string]any{"value": plain(reflect.ValueOf(value)), "error": said(err)}
	}
	return plain(reflect.ValueOf(value))
}

func said(err error) string {
	var kafka *kerr.Error
	if errors.As(err, &kafka) {
		return kafka.Message
	}
	return err.Error()
}

// Turn a value into maps, lists, strings and numbers, by the names of its public fields.
func plain(v reflect.Value) any {
	if !v.IsValid() {
		return nil
	}
	if v.CanInterface() {
		switch value := v.Interface().(type) {
		case error:
			if v.Kind() == reflect.Pointer && v.IsNil() {
				return nil
			}
			return said(value)
		case kadm.BrokerApiVersions:
			return apiVersions(value)
		case kadm.GroupMemberMetadata:
			consumer, _ := value.AsConsumer()
			return plain(reflect.ValueOf(consumer))
		case kadm.GroupMemberAssignment:
			consumer, _ := value.AsConsumer()
			return plain(reflect.ValueOf(consumer))
		case kadm.TopicID:
			return value.String()
		case time.Time:
			return value.UnixMilli()
		case []byte:
			return string(value)
		case fmt.Stringer:
			if v.Kind() >= reflect.Int && v.Kind() <= reflect.Uint64 {
				return value.String()
			}
		}
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return nil
		}
		return plain(v.Elem())
	case reflect.Map:
		fields := map[string]any{}
		for _, key := range v.MapKeys() {
			fields[fmt.Sprint(key.Interface())] = plain(v.MapIndex(key))
		}
		return fields
	case reflect.Slice, reflect.Array:
		items := []any{}
		for i := range v.Len() {
			items = append(items, plain(v.Index(i)))
		}
		return items
	case reflect.Struct:
		fields := map[string]any{}
		for i := range v.NumField() {
			field := v.Type().Field(i)
			if field.Name == "UnknownTags" {
				continue
			}
			if field.IsExported() {
				fields[field.Name] = plain(v.Field(i))
			}
		}
		return fields
	default:
		return v.Interface()
	}
}

func apiVersions(of kadm.BrokerApiVersions) any {
	versions := map[string]string{}
	if raw := of.Raw(); raw != nil {
		for _, key := range raw.ApiKeys {
			versions[kmsg.NameForKey(key.ApiKey)] = fmt.Sprintf("%d-%d", key.MinVersion, key.MaxVersion)
		}
	}
	return map[string]any{"versions": versions, "error": plain(reflect.ValueOf(&of.Err).Elem())}
}

func text(value string) *string { return &value }

func set(topic string, partitions ...int32) kadm.TopicsSet {
	found := kadm.TopicsSet{}
	found.Add(topic, partitions...)
	return found
}

// Offsets of all partitions that are named: topic, partition, offset, and so on.
func offsets(rows ...kadm.Offset) kadm.Offsets {
	found := kadm.Offsets{}
	for _, row := range rows {
		found.Add(row)
	}
	return found
}

// Answers of several brokers come in the order of chance, and keys in that of a hash table; sort them by name.
func configs(answer kadm.ResourceConfigs, err error) any {
	for _, resource := range answer {
		sort.Slice(resource.Configs, func(i, j int) bool { return resource.Configs[i].Key < resource.Configs[j].Key })
	}
	sort.Slice(answer, func(i, j int) bool { return answer[i].Name < answer[j].Name })
	return both(answer, err)
}

func altered(answer kadm.AlterConfigsResponses, err error) any {
	sort.Slice(answer, func(i, j int) bool { return answer[i].Name < answer[j].Name })
	return both(answer, err)
}

func quotas(answer kadm.DescribedClientQuotas, err error) any {
	sort.Slice(answer, func(i, j int) bool {
		return fmt.Sprint(plain(reflect.ValueOf(answer[i]))) < fmt.Sprint(plain(reflect.ValueOf(answer[j])))
	})
	for _, quota := range answer {
		sort.Slice(quota.Values, func(i, j int) bool { return quota.Values[i].Key < quota.Values[j].Key })
		sort.Slice(quota.Entity, func(i, j int) bool { return quota.Entity[i].Type < quota.Entity[j].Type })
	}
	return both(answer, err)
}

func acls[T any](answer []T, err error) any {
	lines := both(answer, err)
	sortDeep(lines)
	return lines
}

// Sort lists of maps by their text; brokers keep ACLs in sets.
func sortDeep(value any) {
	switch found := value.(type) {
	case map[string]any:
		for _, inner := range found {
			sortDeep(inner)
		}
	case []any:
		for _, inner := range found {
			sortDeep(inner)
		}
		sort.SliceStable(found, func(i, j int) bool { return fmt.Sprint(found[i]) < fmt.Sprint(found[j]) })
	}
}

// The topics whose layout the story gives; those that kadm creates are placed by chance.
func createPlaced(s *session) any {
	request := kmsg.NewPtrCreateTopicsRequest()
	request.TimeoutMillis = 15000
	for name, layout := range map[string][][]int32{orders: {{1, 2, 3}, {2, 3, 1}}, moved: {{1, 2}}} {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, -1, -1
		for partition, replicas := range layout {
			assignment := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
			assignment.Partition, assignment.Replicas = int32(partition), replicas
			topic.ReplicaAssignment = append(topic.ReplicaAssignment, assignment)
		}
		// the records are older than the retention time by default
		retention := kmsg.NewCreateTopicsRequestTopicConfig()
		retention.Name, retention.Value = "retention.ms", text("-1")
		topic.Configs = append(topic.Configs, retention)
		request.Topics = append(request.Topics, topic)
	}
	response, err := request.RequestWith(s.context, s.client)
	errs := map[string]string{}
	for _, topic := range response.Topics {
		errs[topic.Topic] = fmt.Sprint(kerr.ErrorForCode(topic.ErrorCode))
	}
	return both(errs, err)
}

func describeCluster(s *session) any {
	request := kmsg.NewPtrDescribeClusterRequest()
	request.IncludeClusterAuthorizedOperations = true
	response, err := request.RequestWith(s.context, s.client)
	if response != nil {
		sort.Slice(response.Brokers, func(i, j int) bool { return response.Brokers[i].NodeID < response.Brokers[j].NodeID })
	}
	return both(response, err)
}

func record(topic string, partition int32, number int) *kgo.Record {
	return &kgo.Record{
		Topic: topic, Partition: partition, Timestamp: time.UnixMilli(baseMs + 1000*int64(number)),
		Key: []byte(fmt.Sprint("key-", number)), Value: []byte(strings.Repeat("v", number)),
	}
}

// One batch for each record, so that sizes are the same everywhere.
func produce(s *session) any {
	written := []any{}
	for number := range 15 {
		partition := int32(0)
		if number >= 10 {
			partition = 1
		}
		result := s.client.ProduceSync(s.context, record(orders, partition, number))[0]
		written = append(written, both(result.Record.Offset, result.Err))
	}
	return written
}

func begin(s *session) any {
	producer, err := kgo.NewClient(
		kgo.SeedBrokers(s.seeds...), kgo.TransactionalID(txnID), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.RetryTimeout(20*time.Second),
	)
	if err != nil {
		return said(err)
	}
	s.producer = producer
	if err := producer.BeginTransaction(); err != nil {
		return said(err)
	}
	result := producer.ProduceSync(s.context, record(orders, 0, 20))[0]
	return both(result.Record.Offset, result.Err)
}

func end(how kgo.TransactionEndTry) func(*session) any {
	return func(s *session) any { return both(nil, s.producer.EndTransaction(s.context, how)) }
}

func beginAgain(s *session) any {
	if err := s.producer.BeginTransaction(); err != nil {
		return said(err)
	}
	result := s.producer.ProduceSync(s.context, record(orders, 1, 21))[0]
	return both(result.Record.Offset, result.Err)
}

// A static member of the group `readers`, with all partitions of the topic.
func join(s *session) any {
	consumer, err := kgo.NewClient(
		kgo.SeedBrokers(s.seeds...), kgo.ConsumerGroup("readers"), kgo.ConsumeTopics(orders), kgo.InstanceID(static), kgo.ClientID("reader"),
		kgo.Balancers(kgo.RangeBalancer()), kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(30*time.Second),
	)
	if err != nil {
		return said(err)
	}
	s.consumer = consumer
	limit, cancel := context.WithTimeout(s.context, time.Minute)
	defer cancel()
	count := 0
	for count < 15 && limit.Err() == nil {
		count += consumer.PollFetches(limit).NumRecords()
	}
	return count
}

func commitRead(s *session) any {
	return both(nil, s.consumer.CommitUncommittedOffsets(s.context))
}

func leave(s *session) any {
	answer, err := s.admin.LeaveGroup(s.context, kadm.LeaveGroup("readers").InstanceIDs(static, "nobody").Reason("over"))
	s.consumer.CloseAllowingRebalance()
	return both(answer, err)
}

func alter(s *session, value ...kadm.AlterConfig) []kadm.AlterConfig { return value }

func change(name, value string) kadm.AlterConfig {
	return kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: text(value)}
}

func some() *kadm.ACLBuilder {
	return kadm.NewACLs().Topics(orders, "pay").Groups("billing").Allow("User:alice", "User:bob").AllowHosts().
		Deny("User:eve").DenyHosts("10.0.0.1").Operations(kadm.OpRead, kadm.OpDescribe).ResourcePatternType(kadm.ACLPatternLiteral)
}

func anyACL() *kadm.ACLBuilder {
	return kadm.NewACLs().AnyResource().Allow().AllowHosts().Deny().DenyHosts().Operations(kadm.OpAny).ResourcePatternType(kadm.ACLPatternAny)
}

func entity(parts ...string) kadm.ClientQuotaEntity {
	found := kadm.ClientQuotaEntity{}
	for i := 0; i < len(parts); i += 2 {
		component := kadm.ClientQuotaEntityComponent{Type: parts[i]}
		if parts[i+1] != "" {
			component.Name = text(parts[i+1])
		}
		found = append(found, component)
	}
	return found
}

func rate(of kadm.ClientQuotaEntity, key string, value float64) kadm.AlterClientQuotaEntry {
	return kadm.AlterClientQuotaEntry{Entity: of, Ops: []kadm.AlterClientQuotaOp{{Key: key, Value: value}}}
}

func unrate(of kadm.ClientQuotaEntity, key string) kadm.AlterClientQuotaEntry {
	return kadm.AlterClientQuotaEntry{Entity: of, Ops: []kadm.AlterClientQuotaOp{{Key: key, Remove: true}}}
}

func authorized(s *session) context.Context { return kadm.WithAuthorizedOps(s.context) }

func assign(rows ...any) kadm.AlterPartitionAssignmentsReq {
	request := kadm.AlterPartitionAssignmentsReq{}
	for i := 0; i < len(rows); i += 3 {
		replicas, _ := rows[i+2].([]int32)
		request.Assign(rows[i].(string), int32(rows[i+1].(int)), replicas)
	}
	return request
}

var steps = []step{
	// The cluster
	{"ApiVersions", true, func(s *session) any { return both(s.admin.ApiVersions(s.context)) }},
	{"BrokerMetadata", true, func(s *session) any { return both(s.admin.BrokerMetadata(s.context)) }},
	{"ListBrokers", true, func(s *session) any { return both(s.admin.ListBrokers(s.context)) }},
	{"DescribeCluster", true, describeCluster},
	{"ListTopics before there are any", true, func(s *session) any { return both(s.admin.ListTopics(s.context)) }},

	// Topics
	{"CreateTopics with a layout", false, createPlaced},
	{"ValidateCreateTopics", false, func(s *session) any {
		return both(s.admin.ValidateCreateTopics(s.context, 2, 3, nil, "plain", orders, "not/valid"))
	}},
	{"CreateTopics", false, func(s *session) any {
		settings := map[string]*string{"retention.ms": text("60000"), "cleanup.policy": text("compact")}
		return both(s.admin.CreateTopics(s.context, 2, 3, settings, "plain", "gone", orders))
	}},
	{"CreateTopics with the default partitions and factor", false, func(s *session) any { return both(s.admin.CreateTopics(s.context, -1, -1, nil, "defaults")) }},
	{"CreateTopic with too many replicas", false, func(s *session) any { return both(s.admin.CreateTopic(s.context, 1, 9, nil, "many")) }},
	{"CreateTopic without partitions", false, func(s *session) any { return both(s.admin.CreateTopic(s.context, 0, 1, nil, "none")) }},
	{"CreateTopic with an unknown setting", false, func(s *session) any {
		return both(s.admin.CreateTopic(s.context, 1, 1, map[string]*string{"no.such.key": text("1")}, "odd"))
	}},
	{"CreateTopic with a wrong value", false, func(s *session) any {
		return both(s.admin.CreateTopic(s.context, 1, 1, map[string]*string{"retention.ms": text("long")}, "odd"))
	}},
	{"ListTopics", true, func(s *session) any { return both(s.admin.ListTopics(s.context)) }},
	{"ListTopics by name", true, func(s *session) any { return both(s.admin.ListTopics(s.context, orders, missing)) }},
	{"Metadata with operations", true, func(s *session) any { return both(s.admin.Metadata(authorized(s), orders)) }},
	{"ValidateCreatePartitions", false, func(s *session) any { return both(s.admin.ValidateCreatePartitions(s.context, 2, "plain", missing)) }},
	{"CreatePartitions", false, func(s *session) any { return both(s.admin.CreatePartitions(s.context, 1, "plain")) }},
	{"UpdatePartitions", false, func(s *session) any { return both(s.admin.UpdatePartitions(s.context, 4, "plain")) }},
	{"UpdatePartitions to as many", false, func(s *session) any { return both(s.admin.UpdatePartitions(s.context, 4, "plain")) }},
	{"UpdatePartitions to fewer", false, func(s *session) any { return both(s.admin.UpdatePartitions(s.context, 1, "plain", missing)) }},
	{"ListTopics with more partitions", true, func(s *session) any { return both(s.admin.ListTopics(s.context, "plain")) }},

	// Records and offsets
	{"produce", false, produce},
	{"ListStartOffsets", true, func(s *session) any { return both(s.admin.ListStartOffsets(s.context, orders)) }},
	{"ListEndOffsets", true, func(s *session) any { return both(s.admin.ListEndOffsets(s.context, orders, missing)) }},
	{"ListCommittedOffsets", true, func(s *session) any { return both(s.admin.ListCommittedOffsets(s.context, orders)) }},
	{"ListOffsetsAfterMilli", true, func(s *session) any { return both(s.admin.ListOffsetsAfterMilli(s.context, baseMs+3500, orders)) }},
	{"ListOffsetsAfterMilli of all", true, func(s *session) any { return both(s.admin.ListOffsetsAfterMilli(s.context, 0, orders)) }},
	{"ListOffsetsAfterMilli of none", true, func(s *session) any { return both(s.admin.ListOffsetsAfterMilli(s.context, baseMs+100000, orders)) }},
	{"ListMaxTimestampOffsets", true, func(s *session) any { return both(s.admin.ListMaxTimestampOffsets(s.context, orders)) }},
	{"ListLocalLogStartOffsets", true, func(s *session) any { return both(s.admin.ListLocalLogStartOffsets(s.context, orders)) }},
	{"ListLatestRemoteOffsets", true, func(s *session) any { return both(s.admin.ListLatestRemoteOffsets(s.context, orders)) }},
	{"OffsetForLeaderEpoch", true, func(s *session) any {
		return both(s.admin.OffsetForLeaderEpoch(s.context, kadm.OffsetForLeaderEpochRequest{orders: {0: 0, 1: 5}, missing: {0: 0}}))
	}},
	{"DescribeProducers", true, func(s *session) any { return both(s.admin.DescribeProducers(s.context, set(orders, 0, 1))) }},
	{"DescribeProducers of no topic", true, func(s *session) any { return both(s.admin.DescribeProducers(s.context, set(missing, 0))) }},

	// Groups without members
	{"FindGroupCoordinators", true, func(s *session) any { return both(s.admin.FindGroupCoordinators(s.context, "billing"), nil) }},
	{"CommitOffsets", false, func(s *session) any {
		return both(s.admin.CommitOffsets(s.context, "billing", offsets(
			kadm.Offset{Topic: orders, Partition: 0, At: 4, LeaderEpoch: 0, Metadata: "note"},
			kadm.Offset{Topic: orders, Partition: 1, At: 5, LeaderEpoch: -1},
		)))
	}},
	{"CommitOffsets of an unknown partition", false, func(s *session) any {
		return both(s.admin.CommitOffsets(s.context, "billing", offsets(
			kadm.Offset{Topic: orders, Partition: 9, At: 4, LeaderEpoch: -1}, kadm.Offset{Topic: missing, Partition: 0, At: 1, LeaderEpoch: -1},
		)))
	}},
	{"CommitOffsets with long metadata", false, func(s *session) any {
		return both(s.admin.CommitOffsets(s.context, "billing", offsets(
			kadm.Offset{Topic: orders, Partition: 0, At: 4, LeaderEpoch: -1, Metadata: strings.Repeat("x", 5000)})))
	}},
	{"CommitAllOffsets", false, func(s *session) any {
		return both(nil, s.admin.CommitAllOffsets(s.context, "audit", offsets(kadm.Offset{Topic: orders, Partition: 0, At: 10, LeaderEpoch: -1})))
	}},
	{"FetchOffsets", true, func(s *session) any { return both(s.admin.FetchOffsets(s.context, "billing")) }},
	{"FetchOffsets of nobody", true, func(s *session) any { return both(s.admin.FetchOffsets(s.context, "nobody")) }},
	{"FetchOffsetsForTopics", true, func(s *session) any { return both(s.admin.FetchOffsetsForTopics(s.context, "audit", orders, moved)) }},
	{"FetchManyOffsets", true, func(s *session) any {
		return both(s.admin.FetchManyOffsets(s.context, "billing", "audit", "nobody"), nil)
	}},
	{"ListGroups", true, func(s *session) any { return both(s.admin.ListGroups(s.context)) }},
	{"ListGroups by state", true, func(s *session) any { return both(s.admin.ListGroups(s.context, "Empty", "Stable")) }},
	{"ListGroups by another state", true, func(s *session) any { return both(s.admin.ListGroups(s.context, "PreparingRebalance")) }},
	{"ListGroupsByType", true, func(s *session) any { return both(s.admin.ListGroupsByType(s.context, []string{"classic"})) }},
	{"DescribeGroups", true, func(s *session) any { return both(s.admin.DescribeGroups(s.context, "billing", "nobody")) }},
	{"DescribeConsumerGroups", true, func(s *session) any { return both(s.admin.DescribeConsumerGroups(s.context, "billing")) }},
	{"Lag", true, func(s *session) any { return both(s.admin.Lag(s.context, "billing", "nobody")) }},
	{"DeleteOffsets", false, func(s *session) any { return both(s.admin.DeleteOffsets(s.context, "billing", set(orders, 1, 9))) }},
	{"FetchOffsets after DeleteOffsets", true, func(s *session) any { return both(s.admin.FetchOffsets(s.context, "billing")) }},

	// A group with a member
	{"join a group", false, join},
	{"commit what was read", false, commitRead},
	{"DescribeGroups with a member", true, func(s *session) any { return both(s.admin.DescribeGroups(authorized(s), "readers")) }},
	{"Lag with a member", true, func(s *session) any { return both(s.admin.Lag(s.context, "readers")) }},
	{"ListGroups with a member", true, func(s *session) any { return both(s.admin.ListGroups(s.context, "Stable")) }},
	{"CommitOffsets of a group with a member", false, func(s *session) any {
		return both(s.admin.CommitOffsets(s.context, "readers", offsets(kadm.Offset{Topic: orders, Partition: 0, At: 1, LeaderEpoch: -1})))
	}},
	{"DeleteOffsets of a subscribed topic", false, func(s *session) any { return both(s.admin.DeleteOffsets(s.context, "readers", set(orders, 0))) }},
	{"DeleteGroup with a member", false, func(s *session) any { return both(s.admin.DeleteGroup(s.context, "readers")) }},
	{"LeaveGroup", false, leave},
	{"DescribeGroups that was left", true, func(s *session) any { return both(s.admin.DescribeGroups(s.context, "readers")) }},
	{"DeleteGroups", false, func(s *session) any { return both(s.admin.DeleteGroups(s.context, "billing", "nobody")) }},
	{"ListGroups after DeleteGroups", true, func(s *session) any { return both(s.admin.ListGroups(s.context)) }},

	// Deleted records
	{"DeleteRecords", false, func(s *session) any {
		return both(s.admin.DeleteRecords(s.context, offsets(kadm.Offset{Topic: orders, Partition: 0, At: 3}, kadm.Offset{Topic: orders, Partition: 1, At: -1})))
	}},
	{"DeleteRecords beyond the end", false, func(s *session) any {
		return both(s.admin.DeleteRecords(s.context, offsets(kadm.Offset{Topic: orders, Partition: 0, At: 100})))
	}},
	{"DeleteRecords of no topic", false, func(s *session) any {
		return both(s.admin.DeleteRecords(s.context, offsets(kadm.Offset{Topic: missing, Partition: 0, At: 1})))
	}},
	{"ListStartOffsets after DeleteRecords", true, func(s *session) any { return both(s.admin.ListStartOffsets(s.context, orders)) }},

	// Settings
	{"DescribeTopicConfigs", true, func(s *session) any { return configs(s.admin.DescribeTopicConfigs(s.context, "plain", missing)) }},
	{"AlterTopicConfigs", false, func(s *session) any {
		changes := alter(s, change("retention.ms", "70000"), kadm.AlterConfig{Op: kadm.AppendConfig, Name: "cleanup.policy", Value: text("delete")},
			kadm.AlterConfig{Op: kadm.DeleteConfig, Name: "max.message.bytes"}, change("min.insync.replicas", "2"))
		return altered(s.admin.AlterTopicConfigs(s.context, changes, "plain"))
	}},
	{"AlterTopicConfigs with SubtractConfig", false, func(s *session) any {
		return altered(s.admin.AlterTopicConfigs(s.context, alter(s, kadm.AlterConfig{Op: kadm.SubtractConfig, Name: "cleanup.policy", Value: text("compact")}), "plain"))
	}},
	{"AlterTopicConfigs with a wrong value", false, func(s *session) any {
		return altered(s.admin.AlterTopicConfigs(s.context, alter(s, change("retention.ms", "long")), "plain", missing))
	}},
	{"AlterTopicConfigs with an unknown setting", false, func(s *session) any {
		return altered(s.admin.AlterTopicConfigs(s.context, alter(s, change("no.such.key", "1")), "plain"))
	}},
	{"AlterTopicConfigs that appends to no list", false, func(s *session) any {
		return altered(s.admin.AlterTopicConfigs(s.context, alter(s, kadm.AlterConfig{Op: kadm.AppendConfig, Name: "retention.ms", Value: text("1")}), "plain"))
	}},
	{"ValidateAlterTopicConfigs", false, func(s *session) any {
		return altered(s.admin.ValidateAlterTopicConfigs(s.context, alter(s, change("retention.ms", "1")), "plain"))
	}},
	{"DescribeTopicConfigs after AlterTopicConfigs", true, func(s *session) any { return configs(s.admin.DescribeTopicConfigs(s.context, "plain")) }},
	{"ValidateAlterTopicConfigsState", false, func(s *session) any {
		return altered(s.admin.ValidateAlterTopicConfigsState(s.context, alter(s, change("retention.ms", "long")), "plain"))
	}},
	{"AlterTopicConfigsState", false, func(s *session) any {
		return altered(s.admin.AlterTopicConfigsState(s.context, alter(s, change("segment.bytes", "100000")), "plain"))
	}},
	{"AlterTopicConfigs of no topic", false, func(s *session) any {
		return altered(s.admin.AlterTopicConfigs(s.context, alter(s, change("retention.ms", "1")), missing, "not/valid"))
	}},
	{"ValidateAlterTopicConfigs of no topic", false, func(s *session) any {
		return altered(s.admin.ValidateAlterTopicConfigs(s.context, alter(s, change("retention.ms", "1")), missing, "not/valid"))
	}},
	{"AlterTopicConfigsState of no topic", false, func(s *session) any {
		return altered(s.admin.AlterTopicConfigsState(s.context, alter(s, change("no.such.key", "1")), missing, "not/valid"))
	}},
	{"ValidateAlterTopicConfigsState of no topic", false, func(s *session) any {
		return altered(s.admin.ValidateAlterTopicConfigsState(s.context, alter(s, change("retention.ms", "1")), missing, "not/valid"))
	}},
	{"DescribeTopicConfigs after AlterTopicConfigsState", true, func(s *session) any { return configs(s.admin.DescribeTopicConfigs(s.context, "plain")) }},
	{"DescribeBrokerConfigs", true, func(s *session) any { return configs(s.admin.DescribeBrokerConfigs(s.context, 1, 2)) }},
	{"DescribeBrokerConfigs of an unknown broker", true, func(s *session) any { return configs(s.admin.DescribeBrokerConfigs(s.context, 9)) }},
	{"AlterBrokerConfigs", false, func(s *session) any {
		return altered(s.admin.AlterBrokerConfigs(s.context, alter(s, change("log.retention.ms", "500000")), 1))
	}},
	{"AlterBrokerConfigs of all", false, func(s *session) any {
		return altered(s.admin.AlterBrokerConfigs(s.context, alter(s, change("log.cleaner.threads", "2"))))
	}},
	{"AlterBrokerConfigs with a static setting", false, func(s *session) any {
		return altered(s.admin.AlterBrokerConfigs(s.context, alter(s, change("broker.rack", "x")), 1))
	}},
	{"ValidateAlterBrokerConfigs", false, func(s *session) any {
		return altered(s.admin.ValidateAlterBrokerConfigs(s.context, alter(s, change("log.retention.ms", "long")), 1))
	}},
	{"DescribeBrokerConfigs after AlterBrokerConfigs", true, func(s *session) any { return configs(s.admin.DescribeBrokerConfigs(s.context, 1)) }},
	{"DescribeBrokerConfigs of all", true, func(s *session) any { return configs(s.admin.DescribeBrokerConfigs(s.context)) }},
	{"AlterBrokerConfigsState", false, func(s *session) any { return altered(s.admin.AlterBrokerConfigsState(s.context, nil, 1)) }},
	{"ListConfigResources", true, func(s *session) any { return both(s.admin.ListConfigResources(s.context)) }},

	// Log directories
	{"DescribeAllLogDirs", true, func(s *session) any { return both(s.admin.DescribeAllLogDirs(s.context, set(orders, 0, 1))) }},
	{"DescribeBrokerLogDirs", true, func(s *session) any { return both(s.admin.DescribeBrokerLogDirs(s.context, 1, set(moved, 0))) }},
	{"AlterAllReplicaLogDirs", false, func(s *session) any {
		request := kadm.AlterReplicaLogDirsReq{}
		request.Add("/no/such/directory", set(moved, 0))
		return both(s.admin.AlterAllReplicaLogDirs(s.context, request))
	}},
	{"AlterBrokerReplicaLogDirs", false, func(s *session) any {
		request := kadm.AlterReplicaLogDirsReq{}
		request.Add("relative", set(missing, 0))
		return both(s.admin.AlterBrokerReplicaLogDirs(s.context, 1, request))
	}},

	// ACLs
	{"DescribeACLs before there are any", true, func(s *session) any { return acls(s.admin.DescribeACLs(s.context, anyACL())) }},
	{"CreateACLs", false, func(s *session) any { return acls(s.admin.CreateACLs(s.context, some())) }},
	{"CreateACLs with a prefix", false, func(s *session) any {
		return acls(s.admin.CreateACLs(s.context, kadm.NewACLs().Topics("ord").Allow("User:carol").Operations(kadm.OpWrite).ResourcePatternType(kadm.ACLPatternPrefixed)))
	}},
	{"CreateACLs of the cluster", false, func(s *session) any {
		return acls(s.admin.CreateACLs(s.context, kadm.NewACLs().Clusters().TransactionalIDs(txnID).Allow("User:dora").Operations(kadm.OpAlter)))
	}},
	{"CreateACLs with a principal without type", false, func(s *session) any {
		return acls(s.admin.CreateACLs(s.context, kadm.NewACLs().Topics(orders).Allow("frank").Operations(kadm.OpRead)))
	}},
	{"DescribeACLs", true, func(s *session) any { return acls(s.admin.DescribeACLs(s.context, anyACL())) }},
	{"DescribeACLs that match", true, func(s *session) any {
		filter := kadm.NewACLs().Topics(orders).Allow().AllowHosts().Operations(kadm.OpAny).ResourcePatternType(kadm.ACLPatternMatch)
		return acls(s.admin.DescribeACLs(s.context, filter))
	}},
	{"DescribeACLs of a user", true, func(s *session) any {
		filter := kadm.NewACLs().AnyResource().Allow("User:alice").AllowHosts().Operations(kadm.OpRead).ResourcePatternType(kadm.ACLPatternLiteral)
		return acls(s.admin.DescribeACLs(s.context, filter))
	}},
	{"DeleteACLs", false, func(s *session) any {
		filter := kadm.NewACLs().Topics(orders).Allow("User:alice").AllowHosts().Operations(kadm.OpAny).ResourcePatternType(kadm.ACLPatternAny)
		return acls(s.admin.DeleteACLs(s.context, filter))
	}},
	{"DescribeACLs after DeleteACLs", true, func(s *session) any { return acls(s.admin.DescribeACLs(s.context, anyACL())) }},
	{"DeleteACLs of all", false, func(s *session) any { return acls(s.admin.DeleteACLs(s.context, anyACL())) }},

	// Leaders and replicas
	{"ElectLeaders that lead already", false, func(s *session) any {
		return both(s.admin.ElectLeaders(s.context, kadm.ElectPreferredReplica, set(orders, 0, 1)))
	}},
	{"AlterPartitionAssignments to another order", false, func(s *session) any {
		return both(s.admin.AlterPartitionAssignments(s.context, assign(orders, 1, []int32{3, 2, 1})))
	}},
	{"Metadata after AlterPartitionAssignments", true, func(s *session) any { return both(s.admin.Metadata(s.context, orders)) }},
	{"ElectLeaders", false, func(s *session) any {
		return both(s.admin.ElectLeaders(s.context, kadm.ElectPreferredReplica, set(orders, 0, 1)))
	}},
	{"ElectLeaders of no partition", false, func(s *session) any {
		return both(s.admin.ElectLeaders(s.context, kadm.ElectPreferredReplica, set(missing, 0)))
	}},
	{"ElectLeaders uncleanly", false, func(s *session) any {
		return both(s.admin.ElectLeaders(s.context, kadm.ElectLiveReplica, set(orders, 0)))
	}},
	{"Metadata after ElectLeaders", true, func(s *session) any { return both(s.admin.Metadata(s.context, orders)) }},
	{"OffsetForLeaderEpoch after ElectLeaders", true, func(s *session) any {
		return both(s.admin.OffsetForLeaderEpoch(s.context, kadm.OffsetForLeaderEpochRequest{orders: {1: 0}}))
	}},
	{"AlterPartitionAssignments", false, func(s *session) any {
		return both(s.admin.AlterPartitionAssignments(s.context, assign(moved, 0, []int32{2, 3})))
	}},
	{"ListPartitionReassignments", true, func(s *session) any { return both(s.admin.ListPartitionReassignments(s.context, set(moved, 0))) }},
	{"ListPartitionReassignments of all", true, func(s *session) any { return both(s.admin.ListPartitionReassignments(s.context, nil)) }},
	{"Metadata after the move", true, func(s *session) any { return both(s.admin.Metadata(s.context, moved)) }},
	{"AlterPartitionAssignments with mistakes", false, func(s *session) any {
		return both(s.admin.AlterPartitionAssignments(s.context, assign(
			moved, 0, []int32{2, 9}, orders, 0, []int32{1, 1}, orders, 1, []int32{}, missing, 0, []int32{1}, orders, 7, []int32{1})))
	}},
	{"AlterPartitionAssignments that cancels", false, func(s *session) any {
		request := kadm.AlterPartitionAssignmentsReq{}
		request.CancelAssign(moved, 0)
		return both(s.admin.AlterPartitionAssignments(s.context, request))
	}},

	// Quotas and users
	{"AlterClientQuotas", false, func(s *session) any {
		return both(s.admin.AlterClientQuotas(s.context, []kadm.AlterClientQuotaEntry{
			rate(entity("user", "alice"), "producer_byte_rate", 1024), rate(entity("user", "alice", "client-id", "app"), "request_percentage", 12.5),
			rate(entity("client-id", ""), "consumer_byte_rate", 2048), rate(entity("user", ""), "producer_byte_rate", 10),
		}))
	}},
	{"AlterClientQuotas of an address", false, func(s *session) any {
		return both(s.admin.AlterClientQuotas(s.context, []kadm.AlterClientQuotaEntry{rate(entity("ip", "127.0.0.1"), "connection_creation_rate", 5)}))
	}},
	{"AlterClientQuotas with mistakes", false, func(s *session) any {
		return both(s.admin.AlterClientQuotas(s.context, []kadm.AlterClientQuotaEntry{
			rate(entity("user", "alice"), "no_such_rate", 1), rate(entity("colour", "red"), "producer_byte_rate", 1),
			rate(entity("user", "bob"), "producer_byte_rate", -1), rate(entity("user", "carol"), "producer_byte_rate", 1.5),
		}))
	}},
	{"ValidateAlterClientQuotas", false, func(s *session) any {
		return both(s.admin.ValidateAlterClientQuotas(s.context, []kadm.AlterClientQuotaEntry{rate(entity("user", "dora"), "producer_byte_rate", 1)}))
	}},
	{"ValidateAlterClientQuotas of many", false, func(s *session) any {
		entries := []kadm.AlterClientQuotaEntry{}
		for _, name := range []string{"one", "two", "three", "four", "five", "six", ""} {
			entries = append(entries, rate(entity("user", name), "producer_byte_rate", 1), rate(entity("user", name, "client-id", "app"), "producer_byte_rate", 1))
		}
		return both(s.admin.ValidateAlterClientQuotas(s.context, append(entries, entries[0])))
	}},
	{"DescribeClientQuotas", true, func(s *session) any { return quotas(s.admin.DescribeClientQuotas(s.context, false, nil)) }},
	{"DescribeClientQuotas of a user", true, func(s *session) any {
		return quotas(s.admin.DescribeClientQuotas(s.context, false, []kadm.DescribeClientQuotaComponent{{Type: "user", MatchName: text("alice"), MatchType: 0}}))
	}},
	{"DescribeClientQuotas of users alone", true, func(s *session) any {
		return quotas(s.admin.DescribeClientQuotas(s.context, true, []kadm.DescribeClientQuotaComponent{{Type: "user", MatchType: 2}}))
	}},
	{"DescribeClientQuotas of the default", true, func(s *session) any {
		return quotas(s.admin.DescribeClientQuotas(s.context, true, []kadm.DescribeClientQuotaComponent{{Type: "client-id", MatchType: 1}}))
	}},
	{"AlterClientQuotas that removes", false, func(s *session) any {
		return both(s.admin.AlterClientQuotas(s.context, []kadm.AlterClientQuotaEntry{
			unrate(entity("user", "alice"), "producer_byte_rate"), unrate(entity("user", "nobody"), "producer_byte_rate")}))
	}},
	{"DescribeClientQuotas after a removal", true, func(s *session) any { return quotas(s.admin.DescribeClientQuotas(s.context, false, nil)) }},
	{"AlterUserSCRAMs", false, func(s *session) any {
		return both(s.admin.AlterUserSCRAMs(s.context, nil, []kadm.UpsertSCRAM{
			{User: "alice", Mechanism: kadm.ScramSha256, Iterations: 4096, Password: "one"},
			{User: "alice", Mechanism: kadm.ScramSha512, Iterations: 8192, Password: "two"},
			{User: "bob", Mechanism: kadm.ScramSha512, Iterations: 4096, Password: "three"},
		}))
	}},
	{"AlterUserSCRAMs with mistakes", false, func(s *session) any {
		return both(s.admin.AlterUserSCRAMs(s.context, []kadm.DeleteSCRAM{{User: "nobody", Mechanism: kadm.ScramSha256}}, []kadm.UpsertSCRAM{
			{User: "carol", Mechanism: kadm.ScramSha256, Iterations: 4096, Password: "one"},
			{User: "carol", Mechanism: kadm.ScramSha256, Iterations: 4096, Password: "two"},
		}))
	}},
	{"DescribeUserSCRAMs", true, func(s *session) any { return both(s.admin.DescribeUserSCRAMs(s.context)) }},
	{"DescribeUserSCRAMs by name", true, func(s *session) any { return both(s.admin.DescribeUserSCRAMs(s.context, "alice", "nobody")) }},
	{"AlterUserSCRAMs that deletes", false, func(s *session) any {
		return both(s.admin.AlterUserSCRAMs(s.context, []kadm.DeleteSCRAM{{User: "alice", Mechanism: kadm.ScramSha256}}, nil))
	}},
	{"DescribeUserSCRAMs after a deletion", true, func(s *session) any { return both(s.admin.DescribeUserSCRAMs(s.context)) }},

	// Transactions
	{"FindTxnCoordinators", true, func(s *session) any { return both(s.admin.FindTxnCoordinators(s.context, txnID), nil) }},
	{"begin a transaction", false, begin},
	{"DescribeTransactions", true, func(s *session) any { return both(s.admin.DescribeTransactions(s.context, txnID, missing)) }},
	{"ListTransactions", true, func(s *session) any { return both(s.admin.ListTransactions(s.context, nil, nil)) }},
	{"ListTransactions by state", true, func(s *session) any {
		return both(s.admin.ListTransactions(s.context, nil, []string{"Ongoing", "Odd"}))
	}},
	{"ListTransactions by another state", true, func(s *session) any { return both(s.admin.ListTransactions(s.context, nil, []string{"Empty"})) }},
	{"ListTransactions by producer", true, func(s *session) any { return both(s.admin.ListTransactions(s.context, []int64{987654}, nil)) }},
	{"ListTransactionsByTxPattern", true, func(s *session) any { return both(s.admin.ListTransactionsByTxPattern(s.context, nil, nil, "other.*")) }},
	{"DescribeProducers in a transaction", true, func(s *session) any { return both(s.admin.DescribeProducers(s.context, set(orders, 0))) }},
	{"ListCommittedOffsets in a transaction", true, func(s *session) any { return both(s.admin.ListCommittedOffsets(s.context, orders)) }},
	{"commit the transaction", false, end(kgo.TryCommit)},
	{"DescribeTransactions after the commit", true, func(s *session) any { return both(s.admin.DescribeTransactions(s.context, txnID)) }},
	{"ListCommittedOffsets after the commit", true, func(s *session) any { return both(s.admin.ListCommittedOffsets(s.context, orders)) }},
	{"begin another transaction", false, beginAgain},
	{"abort the transaction", false, end(kgo.TryAbort)},
	{"ListTransactions after the abort", true, func(s *session) any { return both(s.admin.ListTransactions(s.context, nil, nil)) }},
	{"ListEndOffsets after the abort", true, func(s *session) any { return both(s.admin.ListEndOffsets(s.context, orders)) }},
	{"WriteTxnMarkers", false, func(s *session) any {
		return both(s.admin.WriteTxnMarkers(s.context, kadm.TxnMarkers{ProducerID: 987654, ProducerEpoch: 0, Commit: false, Topics: set(orders, 0)}))
	}},
	{"ListEndOffsets after WriteTxnMarkers", true, func(s *session) any { return both(s.admin.ListEndOffsets(s.context, orders)) }},

	// Tokens and features, which these clusters do not have
	{"CreateDelegationToken", false, func(s *session) any {
		return both(s.admin.CreateDelegationToken(s.context, kadm.CreateDelegationToken{MaxLifetime: -1}))
	}},
	{"DescribeDelegationTokens", true, func(s *session) any { return both(s.admin.DescribeDelegationTokens(s.context)) }},
	{"RenewDelegationToken", false, func(s *session) any { return both(s.admin.RenewDelegationToken(s.context, []byte("hmac"), time.Hour)) }},
	{"ExpireDelegationToken", false, func(s *session) any { return both(s.admin.ExpireDelegationToken(s.context, []byte("hmac"), -1)) }},
	{"UpdateFeatures", false, func(s *session) any {
		return both(s.admin.UpdateFeatures(s.context, false, kadm.FeatureUpdate{Feature: "no.such.feature", MaxVersionLevel: 1, UpgradeType: 1}))
	}},
	{"DescribeShareGroups", true, func(s *session) any { return both(s.admin.DescribeShareGroups(s.context, "shared")) }},

	// The end
	{"ListTopicsWithInternal", true, func(s *session) any { return both(s.admin.ListTopicsWithInternal(s.context)) }},
	{"DeleteTopics", false, func(s *session) any { return both(s.admin.DeleteTopics(s.context, "gone", missing)) }},
	{"DeleteTopic", false, func(s *session) any { return both(s.admin.DeleteTopic(s.context, "plain")) }},
	{"ListTopics after DeleteTopics", true, func(s *session) any { return both(s.admin.ListTopics(s.context)) }},
}

func main() {
	if os.Args[1] == "steps" {
		for _, step := range steps {
			mark := ""
			if step.reads {
				mark = "? "
			}
			fmt.Println(mark + step.name)
		}
		return
	}
	seeds := strings.Split(os.Args[1], ",")
	client, err := kgo.NewClient(
		kgo.SeedBrokers(seeds...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.RetryTimeout(20*time.Second), kgo.MetadataMinAge(50*time.Millisecond),
	)
	if err != nil {
		panic(err)
	}
	s := &session{context: context.Background(), seeds: seeds, client: client, admin: kadm.NewClient(client)}
	byName := map[string]step{}
	for _, step := range steps {
		byName[step.name] = step
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		line, err := json.Marshal(byName[lines.Text()].ask(s))
		if err != nil {
			line = []byte(strconv.Quote(err.Error()))
		}
		fmt.Println(string(line))
	}
	if s.producer != nil {
		s.producer.Close()
	}
	client.Close()
}
