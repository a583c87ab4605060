import java.util.Arrays;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.common.TopicPartition;

/** Reassigns one partition by the API, which no tool of 2.4 does: BOOTSTRAP TOPIC PARTITION REPLICA,REPLICA... */
public class Reassign {
    public static void main(String[] arguments) throws Exception {
        var partition = new TopicPartition(arguments[1], Integer.parseInt(arguments[2]));
        var replicas = Arrays.stream(arguments[3].split(",")).map(Integer::valueOf).collect(Collectors.toList());
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            var target = Map.of(partition, Optional.of(new NewPartitionReassignment(replicas)));
            admin.alterPartitionReassignments(target).all().get();
        }
    }
}
